// How is an explanation told? As a document for people, and as JSON for programs.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "models/study/explain.h"
#include "models/study/explain_task.h"
#include "tools/stepsim/text_document.h"

namespace stepsim {

// `most_groups`: collectives that are listed; the rest is summed up.
TextDocument ExplanationDocument(const Explanation& why, std::size_t most_groups);
TextDocument TaskDocument(const Explanation& why, const ExplainedTask& task);

// {"schema": "stepsim.explain/1", ...}; fields are added, never renamed.
std::string ExplanationJson(const Explanation& why, const std::optional<ExplainedTask>& task);

}  // namespace stepsim
