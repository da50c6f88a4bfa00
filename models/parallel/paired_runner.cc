#include "models/parallel/paired_runner.h"

#include <algorithm>
#include <utility>

#include "models/spec/wrap_modules.h"

namespace stepsim {
namespace {

using Part = ChunkRunner::Part;

// One of the two passes, if there is one: what comes next waits for what came before.
class Chain {
 public:
  Chain(RankProgram& rank, const PairedPass* pass, Phase phase)
      : rank_(rank),
        pass_(pass),
        phase_(phase),
        compute_(rank.compute()),
        done_(rank.Record(compute_)) {
    if (pass == nullptr) return;
    const std::vector<ModelUnit>& units = workload().units;
    const auto is_layer = [](const ModelUnit& unit) { return IsLayer(unit.name); };
    const auto first = std::find_if(units.begin(), units.end(), is_layer);
    first_ = static_cast<std::size_t>(first - units.begin());
    end_ = first_ + static_cast<std::size_t>(std::count_if(first, units.end(), is_layer));
  }

  std::size_t first_layer() const { return first_; }
  std::size_t layers_end() const { return end_; }
  std::size_t layers() const { return end_ - first_; }
  std::size_t units() const { return pass_ == nullptr ? 0 : workload().units.size(); }
  const StreamEvent& done() const { return done_; }
  TaskId first_kernel() const { return first_kernel_; }

  void Forward(const Part& part, StreamId stream) {
    On(part, stream, [&] {
      const TaskId kernel = pass_->chunk->Forward(pass_->moment, part);
      if (first_kernel_ == kNoId<TaskId>) first_kernel_ = kernel;
    });
  }
  void Backward(const Part& part, StreamId stream) {
    On(part, stream, [&] { pass_->chunk->Backward(pass_->moment, part); });
  }
  void InputGradient(const Part& part, StreamId stream) {
    On(part, stream, [&] { pass_->chunk->InputGradient(pass_->moment, part); });
  }
  // Nothing of this micro-batch waits for it.
  void WeightGradient(const Part& part) {
    if (part.begin == part.end) return;
    rank_.SetPosition(phase_, pass_->position);
    pass_->chunk->WeightGradient(pass_->moment, part);
  }
  void End() {
    if (pass_ == nullptr) return;
    rank_.SetPosition(phase_, pass_->position);
    pass_->chunk->EndBackward(pass_->moment);
  }

  // Units outside the layers: embeddings, heads.
  void ForwardUnits(std::size_t begin, std::size_t end) {
    for (std::size_t u = begin; u < end; ++u) Forward(pass_->chunk->WholeUnit(u), compute_);
  }
  void BackwardUnits(std::size_t begin, std::size_t end) {
    for (std::size_t u = end; u-- > begin;) Backward(pass_->chunk->WholeUnit(u), compute_);
  }

  // Operators of one part of a layer are neighbours.
  Part PartOf(std::size_t unit, LayerPart part) const {
    const std::vector<Operator>& operators = workload().units[unit].operators;
    const auto end = std::find_if(operators.begin(), operators.end(),
                                  [&](const Operator& op) { return op.part > part; });
    const auto begin =
        std::find_if(operators.begin(), end, [&](const Operator& op) { return op.part == part; });
    return {static_cast<std::int32_t>(unit), static_cast<std::int32_t>(begin - operators.begin()),
            static_cast<std::int32_t>(end - operators.begin())};
  }

 private:
  const Workload& workload() const { return pass_->chunk->workload(); }

  template <class Run>
  void On(const Part& part, StreamId stream, Run run) {
    if (part.begin == part.end) return;
    rank_.SetPosition(phase_, pass_->position);
    rank_.Wait(stream, std::move(done_));
    const RankProgram::OnStream guard(rank_, stream);
    run();
    done_ = rank_.Record(stream);
  }

  RankProgram& rank_;
  const PairedPass* pass_;
  const Phase phase_;
  const StreamId compute_;
  StreamEvent done_;
  std::size_t first_ = 0, end_ = 0;
  TaskId first_kernel_ = kNoId<TaskId>;
};

class Pair {
 public:
  Pair(RankProgram& rank, const PairedPass* forward, const PairedPass* backward,
       bool delays_weights)
      : rank_(rank),
        compute_(rank.compute()),
        exchanges_(rank.AddStream("paired exchanges")),
        delays_weights_(delays_weights),
        forward_(rank, forward, Phase::kForward),
        backward_(rank, backward, Phase::kBackward) {}

  PairEnds Run() {
    forward_.ForwardUnits(0, forward_.first_layer());
    backward_.BackwardUnits(backward_.layers_end(), backward_.units());
    for (std::size_t i = 0; i < std::max(forward_.layers(), backward_.layers()); ++i) Layers(i);
    PairEnds ends{forward_.first_kernel(), forward_.done(), backward_.done()};
    // Beside the transfers that these let go.
    if (delays_weights_ && backward_.layers() > 0) {
      backward_.WeightGradient(backward_.PartOf(backward_.first_layer(), LayerPart::kAttention));
    }
    forward_.ForwardUnits(forward_.layers_end(), forward_.units());
    if (ends.first_forward == kNoId<TaskId>) ends.first_forward = forward_.first_kernel();
    backward_.BackwardUnits(0, backward_.first_layer());
    backward_.End();
    rank_.Wait(compute_, forward_.done());
    rank_.Wait(compute_, backward_.done());
    if (forward_.units() == 0) ends.forward = rank_.Record(compute_);
    if (backward_.units() == 0) ends.backward = rank_.Record(compute_);
    return ends;
  }

 private:
  // The i-th layer of the forward, the i-th last one of the backward; what has none left is idle.
  void Layers(std::size_t i) {
    const bool has_forward = i < forward_.layers(), has_backward = i < backward_.layers();
    const std::size_t f = forward_.first_layer() + i;
    const std::size_t b = has_backward ? backward_.layers_end() - 1 - i : 0;
    const auto forward = [&](LayerPart part, StreamId stream) {
      if (has_forward) forward_.Forward(forward_.PartOf(f, part), stream);
    };
    const auto backward = [&](LayerPart part, StreamId stream) {
      if (!has_backward) return;
      const Part operators = backward_.PartOf(b, part);
      if (!delays_weights_) return backward_.Backward(operators, stream);
      backward_.InputGradient(operators, stream);
    };
    const auto weights = [&](LayerPart part) {
      if (has_backward && delays_weights_) backward_.WeightGradient(backward_.PartOf(b, part));
    };
    backward(LayerPart::kCombine, exchanges_);
    weights(LayerPart::kCombine);
    forward(LayerPart::kAttention, compute_);
    backward(LayerPart::kMlp, compute_);
    forward(LayerPart::kDispatch, exchanges_);
    weights(LayerPart::kMlp);
    backward(LayerPart::kDispatch, exchanges_);
    weights(LayerPart::kDispatch);
    forward(LayerPart::kMlp, compute_);
    forward(LayerPart::kCombine, exchanges_);
    backward(LayerPart::kAttention, compute_);
    if (i + 1 < backward_.layers()) weights(LayerPart::kAttention);
  }

  RankProgram& rank_;
  const StreamId compute_, exchanges_;
  const bool delays_weights_;
  Chain forward_, backward_;
};

}  // namespace

PairEnds RunPaired(RankProgram& rank, const PairedPass* forward, const PairedPass* backward,
                   bool delays_weights) {
  return Pair(rank, forward, backward, delays_weights).Run();
}

}  // namespace stepsim
