// What is an id? A dense index with its own type, and a vector that only that type can index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "sim/base/large_array.h"

namespace stepsim {

enum class TaskId : std::uint32_t {};
enum class StreamId : std::uint32_t {};
enum class RankId : std::uint32_t {};        // index of a *simulated* rank
enum class WorkId : std::uint32_t {};        // index of a distinct piece of work
enum class LabelId : std::uint32_t {};       // index of a name
enum class GroupId : std::uint32_t {};       // index of a process group
enum class RendezvousId : std::uint32_t {};  // index of a collective call across simulated ranks

template <class Id>
inline constexpr Id kNoId = Id{0xFFFFFFFFu};

template <class Id>
constexpr std::size_t Index(Id id) {
  return static_cast<std::size_t>(id);
}

template <class Id, class T>
class IdVector {
 public:
  IdVector() = default;
  explicit IdVector(std::size_t size, const T& value = T()) : items_(size, value) {}

  T& operator[](Id id) { return items_[Index(id)]; }
  const T& operator[](Id id) const { return items_[Index(id)]; }
  Id push_back(T item) {
    items_.push_back(std::move(item));
    return Id{static_cast<std::uint32_t>(items_.size() - 1)};
  }
  std::size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  void reserve(std::size_t n) { items_.reserve(n); }
  void shrink_to_fit() { items_.shrink_to_fit(); }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  LargeArray<T> items_;
};

// Iterates the ids 0 .. count-1:  for (TaskId t : AllIds<TaskId>(graph.task_count()))
template <class Id>
class IdRange {
 public:
  explicit IdRange(std::size_t count) : count_(count) {}
  struct Iterator {
    std::uint32_t i;
    Id operator*() const { return Id{i}; }
    Iterator& operator++() { return ++i, *this; }
    bool operator!=(const Iterator& other) const { return i != other.i; }
  };
  Iterator begin() const { return {0}; }
  Iterator end() const { return {static_cast<std::uint32_t>(count_)}; }

 private:
  std::size_t count_;
};
template <class Id>
IdRange<Id> AllIds(std::size_t count) {
  return IdRange<Id>(count);
}

}  // namespace stepsim
