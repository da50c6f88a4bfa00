// When does a group of units begin and end? FSDP acts per wrapped module: this turns the moments of
// units into those of groups. The root's group is around all others: its forward begins first and
// ends last, and so does its backward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

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
    if (unit == GroupAt(kRoot).last_unit) PreBackward(moment, kRoot);
    const std::size_t g = GroupOf(unit);
    if (g != kRoot && unit == GroupAt(g).last_unit) PreBackward(moment, g);
  }
  // Not for the root, whose end is AfterLastBackward.
  void AfterBackward(const Moment& moment, std::int32_t unit) final {
    const std::size_t g = GroupOf(unit);
    if (g != kRoot && unit == GroupAt(g).first_unit) PostBackward(moment, g);
  }

 protected:
  static constexpr std::size_t kRoot = 0;

  explicit GroupedStrategy(ShardGroups groups) : groups_(std::move(groups)) {}

  virtual void BeginForward(const Moment& moment) = 0;  // the root's, before its own PreForward
  virtual void PreForward(const Moment& moment, std::size_t group) = 0;
  virtual void PostForward(const Moment& moment, std::size_t group) = 0;
  virtual void PreBackward(const Moment& moment, std::size_t group) = 0;
  virtual void PostBackward(const Moment& moment, std::size_t group) = 0;

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
    const std::size_t behind = g == kRoot ? group_count() : g;
    if (behind <= kRoot + distance) return std::nullopt;
    return behind - distance;
  }

 private:
  ShardGroups groups_;
};

}  // namespace stepsim
