// What happens next? A binary heap of completions, ordered by (time, sequence number): a total order,
// so that equal times never depend on the heap's mood.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/base/ids.h"
#include "sim/base/time.h"

namespace stepsim {

struct Event {
  SimTime time{};
  std::uint32_t sequence = 0;
  TaskId task{};  // the task that completes, or the first member of a rendezvous
};

class EventQueue {
 public:
  void Reserve(std::size_t events) { heap_.reserve(events); }
  bool empty() const { return heap_.size() == (top_is_taken_ ? 1u : 0u); }

  // Takes the earliest event. Its slot is refilled by the next Push: a chain of tasks on a stream
  // costs one sift instead of two.
  Event Take() {
    DropTakenTop();
    top_is_taken_ = true;
    return heap_.front();
  }

  void Push(Event event) {
    if (top_is_taken_) {
      top_is_taken_ = false;
      SiftDown(event);
    } else {
      heap_.push_back(event);
      SiftUp(heap_.size() - 1, event);
    }
  }

 private:
  static bool IsEarlier(const Event& a, const Event& b) {
    return a.time != b.time ? a.time < b.time : a.sequence < b.sequence;
  }

  void DropTakenTop() {
    if (!top_is_taken_) return;
    top_is_taken_ = false;
    const Event last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) SiftDown(last);
  }

  void SiftUp(std::size_t hole, Event event) {
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / 2;
      if (!IsEarlier(event, heap_[parent])) break;
      heap_[hole] = heap_[parent];
      hole = parent;
    }
    heap_[hole] = event;
  }

  void SiftDown(Event event) {  // from the root
    const std::size_t size = heap_.size();
    std::size_t hole = 0;
    for (std::size_t child = 1; child < size; child = 2 * hole + 1) {
      if (child + 1 < size && IsEarlier(heap_[child + 1], heap_[child])) ++child;
      if (!IsEarlier(heap_[child], event)) break;
      heap_[hole] = heap_[child];
      hole = child;
    }
    heap_[hole] = event;
  }

  std::vector<Event> heap_;
  bool top_is_taken_ = false;
};

}  // namespace stepsim
