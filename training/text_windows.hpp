// Windows of a text as batches: what a model sees, and what it must predict.
#pragma once
#include <tapegrad/training/batch_stream.hpp>
#include <tapegrad/training/dataset.hpp>
#include <tapegrad/training/token_file.hpp>

namespace tapegrad::data {

struct TextBatch {
  Tensor ids;      // [batch, context], int64
  Tensor targets;  // the same, one token later
};

/// The windows that begin at `starts`. IndexError for one that does not lie in the text with the token that follows.
TextBatch text_batch(const Tokens& tokens, const std::vector<std::int64_t>& starts, std::int64_t context);

struct TextWindowsOptions {
  std::int64_t batch_size = 1;
  std::int64_t context = 1;
  std::uint64_t seed = 0;
  /// As in LoaderOptions.
  std::int64_t prefetch = 2;
};

/// An endless stream of batches of windows that begin anywhere, each place as likely as the others; the same for a
/// seed. ValueError if an option is out of range or the text is shorter than one window and the token that follows.
class TextWindows {
 public:
  TextWindows(const Tokens& tokens, const TextWindowsOptions& options);

  TextBatch next();
  /// The number of the batch that comes next.
  std::int64_t position() const { return stream_.position(); }
  void seek(std::int64_t position) { stream_.seek(position); }
  /// Its place, for a checkpoint.
  StateDict state_dict() const { return stream_.state_dict(); }
  /// ValueError that lists all that is wrong, as another seed or context; then nothing is changed.
  void load_state_dict(const StateDict& entries) { stream_.load_state_dict(entries); }

 private:
  BatchStream stream_;
};

/// A dataset of the text cut into windows that don't overlap, as for evaluation: a batch is {ids, targets} (see
/// TextBatch). What is left at the end is not used.
class TextBlocks {
 public:
  /// ValueError if `context` is less than 1.
  TextBlocks(Tokens tokens, std::int64_t context);
  std::int64_t size() const { return tokens_.size() > 0 ? (tokens_.size() - 1) / context_ : 0; }
  Tensors get(const Rows& rows) const;

 private:
  Tokens tokens_;
  std::int64_t context_;
};

}  // namespace tapegrad::data
