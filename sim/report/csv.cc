// One row per metric, so that a file is read by eye and joined by name:
//
//   metric,value,unit
//   step_time_s,0.812,s
#include <fmt/format.h>

#include <string>

#include "sim/metrics/metric_table.h"
#include "sim/report/writer.h"

namespace stepsim {

void WriteCsv(const Result& result, const Sink& sink) {
  std::string text = "metric,value,unit\n";
  for (const Metric& metric : Metrics()) {
    // {} writes the shortest text that reads back as the same number.
    text += fmt::format("{},{},{}\n", metric.name, metric.value(result.report), metric.unit);
  }
  sink(text);
}

}  // namespace stepsim
