// How is one rank's list written down? Every chunk hands out its micro-batches in ascending order,
// so that a schedule only has to say which chunk is next.
//
//   RankOrder order({{.stage = 0, .end = 2}});
//   order.Forward(0), order.Backward(0), order.Forward(0), order.Backward(0);
//   order.Take()  ->  0F0 0B0 0F1 0B1
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "models/pipeline/schedule.h"

namespace stepsim {

class RankOrder {
 public:
  struct Chunk {
    std::int32_t stage = 0;
    std::int32_t first = 0;  // the micro-batches of this chunk: first .. end-1
    std::int32_t end = 0;
  };
  explicit RankOrder(const std::vector<Chunk>& chunks);
  // The stages of a rank, with all micro-batches each. The order can be that of more of them: what
  // concerns the others is left out.
  RankOrder(const std::vector<std::int32_t>& stages, std::int32_t microbatches,
            std::int32_t planned = 0);

  // Each does nothing once the chunk has run out of micro-batches.
  void Forward(std::size_t chunk);
  void Backward(std::size_t chunk);
  void InputGradient(std::size_t chunk);
  void WeightGradient(std::size_t chunk);
  // The one that has been possible for the longest time, of all chunks.
  void OldestWeightGradient();
  // One operation.
  void Overlap(std::size_t forward_chunk, std::size_t backward_chunk);

  bool HasForwards(std::size_t chunk) const { return chunks_[chunk].forward < chunks_[chunk].end; }
  bool HasWeightGradients(std::size_t chunk) const {
    return chunks_[chunk].weight < chunks_[chunk].input;
  }
  std::int32_t PendingWeightGradients() const;  // of all chunks

  std::vector<Action> Take() { return std::move(actions_); }

 private:
  struct Progress {
    std::int32_t stage, forward, input, weight, end;  // the next micro-batch of each kind
  };
  void Add(ActionKind kind, const Progress& chunk, std::int32_t microbatch);

  std::vector<Progress> chunks_;
  std::int32_t kept_;  // micro-batches that are written down
  struct InputGradientDone {
    std::size_t chunk;
    std::int32_t microbatch;
  };
  std::vector<InputGradientDone> done_;
  std::size_t oldest_ = 0;  // of done_, all before it have had their weight gradient
  std::vector<Action> actions_;
};

}  // namespace stepsim
