// When does a group of units begin and end? FSDP acts per wrapped module: this turns the moments of
// units into those of groups. The root's group is around all others: its forward begins first and
// ends last, and so does its backward. The group of a layer's experts is within that of the layer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "models/parallel/shard_groups.h"
#include "models/parallel/strategy.h"

namespace stepsim {

class GroupedStrategy : public Strategy {
 public:
  void BeforeForward(const Moment& moment, std::int32_t unit) final {
    if (unit == 0) {
      BeginForward(moment);
      PreForward(moment, kRoot);
    }
    const std::size_t g = GroupOf(unit);
    if (g != kRoot && unit == GroupAt(g).first_unit) PreForward(moment, g);
  }
  void AfterForward(const Moment& moment, std::int32_t unit) final {
    const std::size_t g = GroupOf(unit);
    if (g != kRoot && unit == GroupAt(g).last_unit) PostForward(moment, g);
    if (unit == GroupAt(kRoot).last_unit) PostForward(moment, kRoot);
  }
  void BeforeBackward(const Moment& moment, std::int32_t unit) final {
    if (unit == GroupAt(kRoot).last_unit) EnterBackward(moment, kRoot);
    const std::size_t g = GroupOf(unit);
    if (g != kRoot && unit == GroupAt(g).last_unit) EnterBackward(moment, g);
  }
  // Not for the root, whose end is AfterLastBackward.
  void AfterBackward(const Moment& moment, std::int32_t unit) final {
    const std::size_t g = GroupOf(unit);
    if (g == kRoot || unit != GroupAt(g).first_unit) return;
    PostBackward(moment, g);
    phases_[g] = Phase::kIdle;
  }
  void BeforeForwardOf(const Moment& moment, std::int32_t unit, const Operator& op) final {
    if (IsFirstOfExperts(unit, op)) PreForward(moment, NestedIn(unit));
  }
  void AfterForwardOf(const Moment& moment, std::int32_t unit, const Operator& op) final {
    if (IsLastOfExperts(unit, op)) PostForward(moment, NestedIn(unit));
  }
  void BeforeBackwardOf(const Moment& moment, std::int32_t unit, const Operator& op) final {
    if (IsLastOfExperts(unit, op)) EnterBackward(moment, NestedIn(unit));
  }
  void AfterBackwardOf(const Moment& moment, std::int32_t unit, const Operator& op) final {
    if (!IsFirstOfExperts(unit, op)) return;
    PostBackward(moment, NestedIn(unit));
    phases_[NestedIn(unit)] = Phase::kIdle;
  }
  // Recomputation inside a group finds its parameters there. A checkpoint over several groups runs
  // the forward of those whose backward is still to come: with all their hooks. So does one around
  // a layer with its experts, which then stay for their backward.
  void BeforeRerunOf(const Moment& moment, std::int32_t unit, const Operator& op) final {
    BeginRerun(moment, GroupOf(unit));
    if (IsAmongExperts(unit, op)) BeginRerun(moment, NestedIn(unit));
  }
  void AfterRerunOf(const Moment& moment, std::int32_t unit, const Operator& op) final {
    const std::size_t g = GroupOf(unit);
    const auto& operators = workload_.units[static_cast<std::size_t>(unit)].operators;
    const bool is_last = unit == GroupAt(g).last_unit && &op == &operators.back();
    if (!is_last || phases_[g] != Phase::kRerun) return;
    PostRerun(moment, g);
    phases_[g] = Phase::kIdle;
  }

 protected:
  static constexpr std::size_t kRoot = 0;

  GroupedStrategy(const Workload& workload, ShardGroups groups)
      : workload_(workload), groups_(std::move(groups)), phases_(groups_.groups.size()) {}

  virtual void BeginForward(const Moment& moment) = 0;  // the root's, before its own PreForward
  virtual void PreForward(const Moment& moment, std::size_t group) = 0;
  virtual void PostForward(const Moment& moment, std::size_t group) = 0;
  virtual void PreBackward(const Moment& moment, std::size_t group) = 0;
  virtual void PostBackward(const Moment& moment, std::size_t group) = 0;
  virtual void PreRerun(const Moment& moment, std::size_t group) = 0;
  virtual void PostRerun(const Moment& moment, std::size_t group) = 0;

  const Workload& workload() const { return workload_; }
  const ShardGroups& groups() const { return groups_; }
  std::size_t group_count() const { return groups_.groups.size(); }
  const ShardGroup& GroupAt(std::size_t g) const { return groups_.groups[g]; }
  std::size_t GroupOf(std::int32_t unit) const {
    return groups_.of_unit[static_cast<std::size_t>(unit)];
  }
  std::size_t GroupOfParameter(std::int32_t p) const {
    return groups_.of_parameter[static_cast<std::size_t>(p)];
  }
  // The group that backward reaches `distance` groups after g; none when the root is all that is
  // left.
  std::optional<std::size_t> NextOfBackward(std::size_t g, std::size_t distance) const {
    const std::vector<std::size_t>& order = groups_.backward;
    const auto at = std::find(order.begin(), order.end(), g);
    if (static_cast<std::size_t>(order.end() - at) <= distance) return std::nullopt;
    return *(at + static_cast<std::ptrdiff_t>(distance));
  }
  std::size_t NestedIn(std::int32_t unit) const {
    return groups_.nested[static_cast<std::size_t>(unit)];
  }

 private:
  enum class Phase : char { kIdle, kRerun, kBackward };

  const Operator& OperatorAt(std::int32_t unit, std::int32_t op) const {
    return workload_.OperatorAt({unit, op});
  }
  bool IsFirstOfExperts(std::int32_t unit, const Operator& op) const {
    const std::size_t g = NestedIn(unit);
    return g != kRoot && &op == &OperatorAt(unit, GroupAt(g).first_operator);
  }
  bool IsLastOfExperts(std::int32_t unit, const Operator& op) const {
    const std::size_t g = NestedIn(unit);
    return g != kRoot && &op == &OperatorAt(unit, GroupAt(g).last_operator);
  }
  bool IsAmongExperts(std::int32_t unit, const Operator& op) const {
    const std::size_t g = NestedIn(unit);
    return g != kRoot && &op >= &OperatorAt(unit, GroupAt(g).first_operator) &&
           &op <= &OperatorAt(unit, GroupAt(g).last_operator);
  }

  void BeginRerun(const Moment& moment, std::size_t g) {
    if (g == kRoot || phases_[g] != Phase::kIdle) return;
    PreRerun(moment, g);
    phases_[g] = Phase::kRerun;
  }

  void EnterBackward(const Moment& moment, std::size_t g) {
    phases_[g] = Phase::kBackward;
    PreBackward(moment, g);
  }

  const Workload& workload_;
  ShardGroups groups_;
  std::vector<Phase> phases_;
};

}  // namespace stepsim
