// What is to need little stack runs on one of 1 MiB.
#pragma once
#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>

/// Runs `action` on a thread whose stack has 1 MiB.
inline void run_on_small_stack(std::function<void()> action) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 1 << 20), 0);
  pthread_t thread;
  const auto run = [](void* context) -> void* {
    (*static_cast<std::function<void()>*>(context))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &action), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}
