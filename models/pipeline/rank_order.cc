#include "models/pipeline/rank_order.h"

#include <algorithm>
#include <limits>

namespace stepsim {

RankOrder::RankOrder(const std::vector<Chunk>& chunks)
    : kept_(std::numeric_limits<std::int32_t>::max()) {
  std::size_t cells = 0;
  for (const Chunk& c : chunks) {
    chunks_.push_back({c.stage, c.first, c.first, c.first, c.end});
    cells += static_cast<std::size_t>(c.end - c.first);
  }
  actions_.reserve(3 * cells);
}

RankOrder::RankOrder(const std::vector<std::int32_t>& stages, std::int32_t microbatches,
                     std::int32_t planned)
    : kept_(microbatches) {
  const std::int32_t end = std::max(microbatches, planned);
  for (const std::int32_t stage : stages) chunks_.push_back({stage, 0, 0, 0, end});
  actions_.reserve(3 * stages.size() * static_cast<std::size_t>(microbatches));
}

void RankOrder::Forward(std::size_t chunk) {
  Progress& c = chunks_[chunk];
  if (c.forward < c.end) Add(ActionKind::kForward, c, c.forward++);
}

void RankOrder::Backward(std::size_t chunk) {
  Progress& c = chunks_[chunk];
  if (c.input == c.end) return;
  Add(ActionKind::kBackward, c, c.input++);
  ++c.weight;
}

void RankOrder::InputGradient(std::size_t chunk) {
  Progress& c = chunks_[chunk];
  if (c.input == c.end) return;
  done_.push_back({chunk, c.input});
  Add(ActionKind::kInputGradient, c, c.input++);
}

void RankOrder::WeightGradient(std::size_t chunk) {
  Progress& c = chunks_[chunk];
  if (c.weight < c.input) Add(ActionKind::kWeightGradient, c, c.weight++);
}

void RankOrder::OldestWeightGradient() {
  while (oldest_ < done_.size()) {
    const InputGradientDone& done = done_[oldest_++];
    if (done.microbatch >= chunks_[done.chunk].weight) return WeightGradient(done.chunk);
  }
}

std::int32_t RankOrder::PendingWeightGradients() const {
  std::int32_t count = 0;
  for (const Progress& chunk : chunks_) count += chunk.input - chunk.weight;
  return count;
}

void RankOrder::Overlap(std::size_t forward_chunk, std::size_t backward_chunk) {
  Forward(forward_chunk);
  Backward(backward_chunk);
  actions_.back().overlaps_previous = true;
}

void RankOrder::Add(ActionKind kind, const Progress& chunk, std::int32_t microbatch) {
  if (microbatch < kept_) actions_.push_back({kind, chunk.stage, microbatch});
}

}  // namespace stepsim
