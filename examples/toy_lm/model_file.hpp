// A trained model in one file: weights, and in the metadata what is needed to build the model and to read text.
#pragma once
#include <string>

#include "model.hpp"
#include "text.hpp"

namespace toy_lm {

struct SavedModel {
  Gpt model;
  Vocabulary vocabulary;
};

/// Replaces the file as a whole, or leaves it as it was and throws tapegrad::FileError.
void save_model(const std::string& path, const Gpt& model, const Vocabulary& vocabulary);
/// BadInput if the file can't be read or is no model of toy_lm.
SavedModel load_model(const std::string& path);

}  // namespace toy_lm
