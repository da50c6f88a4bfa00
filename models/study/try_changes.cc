#include "models/study/try_changes.h"

#include "models/study/try_step.h"

namespace stepsim {

StepReport Trial::Try(const Changes& changes) {
  const auto job = WithCosts(variants_.base().job, changes);
  if (!job) return TryStep(variants_.With(changes));
  if (!prepared_) prepared_ = std::make_unique<PreparedStep>(variants_.base());
  return prepared_->Try(*job);
}

}  // namespace stepsim
