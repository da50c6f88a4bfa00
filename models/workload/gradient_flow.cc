#include "models/workload/gradient_flow.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace stepsim {
namespace {

// Of one unit, while backward goes through it.
class UnitGradients {
 public:
  UnitGradients(std::vector<Operator>& operators, Bytes of_result)
      : operators_(operators), owned_(operators.size()) {
    if (!owned_.empty()) owned_.back() = of_result;
  }

  // Returns what is left for the unit before: the gradient of this unit's input.
  Bytes Walk() {
    for (std::size_t i = operators_.size(); i-- > 0;) {
      Operator& op = operators_[i];
      Bytes own = std::exchange(owned_[i], Bytes{});
      for (const ReadTensor& read : op.reads) {
        const bool is_last = &read == &op.reads.back();
        if (op.hands_on_gradient && is_last) {
          Give(&op, read, std::exchange(own, Bytes{}), /*is_new=*/false);
        } else {
          // A branch shares the sum's gradient unless it has another type.
          const bool is_shared = op.hands_on_gradient && read.bytes == op.reads.back().bytes;
          Give(&op, read, is_shared ? Bytes{} : read.bytes, /*is_new=*/true);
        }
      }
      op.gradients_taken += own;
    }
    return of_input_;
  }

 private:
  Bytes& OwnedBy(std::int32_t writer) {
    return writer == kUnitInput ? of_input_ : owned_[static_cast<std::size_t>(writer)];
  }

  // The first gradient of a tensor stays; others are added to it and go at once.
  void Give(Operator* op, const ReadTensor& read, Bytes bytes, bool is_new) {
    const auto tensor = std::pair(read.writer, read.part);
    const bool is_known = std::find(known_.begin(), known_.end(), tensor) != known_.end();
    if (is_known) {
      if (is_new) {
        op->backward_workspace += bytes;
      } else {
        op->gradients_taken += bytes;
      }
      return;
    }
    known_.push_back(tensor);
    OwnedBy(read.writer) += bytes;
    if (is_new) op->gradients_made += bytes;
  }

  std::vector<Operator>& operators_;
  std::vector<Bytes> owned_;  // by operator: of its result
  Bytes of_input_;
  std::vector<std::pair<std::int32_t, std::int32_t>> known_;  // tensors that have a gradient
};

}  // namespace

void AddGradientFlow(Workload* workload) {
  Bytes of_result;
  for (auto unit = workload->units.rbegin(); unit != workload->units.rend(); ++unit) {
    of_result = UnitGradients(unit->operators, of_result).Walk();
  }
}

}  // namespace stepsim
