#include "models/calibration/measurements.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace stepsim {
namespace {

template <class T>
void MoveBehind(std::vector<T>& list, std::vector<T>& more) {
  std::move(more.begin(), more.end(), std::back_inserter(list));
}

// Each thing once, in the order in which it was first said.
void AddOnce(std::vector<std::string>& list, const std::vector<std::string>& more) {
  for (const std::string& text : more) {
    if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
  }
}

void JoinText(std::string& text, const std::string& more) {
  if (more.empty() || text == more) return;
  text += (text.empty() ? "" : "; ") + more;
}

}  // namespace

void Measurements::Append(Measurements more) {
  MoveBehind(gemms, more.gemms);
  MoveBehind(memory, more.memory);
  MoveBehind(attention, more.attention);
  MoveBehind(collectives, more.collectives);
  MoveBehind(interference, more.interference);
  MoveBehind(launches, more.launches);
  AddOnce(notes, more.notes);
  AddOnce(about.libraries, more.about.libraries);
  AddOnce(about.files, more.about.files);
  JoinText(about.date, more.about.date);
  JoinText(about.device, more.about.device);
  JoinText(about.driver, more.about.driver);
  JoinText(about.command, more.about.command);
}

}  // namespace stepsim
