// A small Chrome trace, written by hand: times in microseconds.
//
//   TraceText t;
//   t.Kernel("gemm", 7, 0, 100);
//   t.Collective("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, 50, 100, "allreduce", 1000);
//   ReadTraceTexts({{"rank0.json", t.Text()}}, {})
#pragma once

#include <fmt/format.h>

#include <string>

namespace stepsim::testing {

class TraceText {
 public:
  explicit TraceText(int rank = 0, int world = 2) : rank_(rank), world_(world) {}

  void Event(const std::string& text) { events_ += (events_.empty() ? "" : ",\n") + text; }

  void Kernel(const std::string& name, int stream, double begin, double length,
              const std::string& arguments = "", const std::string& category = "kernel") {
    Event(fmt::format(R"({{"ph":"X","cat":"{}","name":"{}","pid":0,"tid":{},"ts":{},"dur":{},)"
                      R"("args":{{"device":0,"stream":{}{}}}}})",
                      category, name, stream, begin, length, stream, arguments));
  }
  void Collective(const std::string& name, int stream, double begin, double length,
                  const std::string& collective, std::int64_t elements,
                  const std::string& arguments = "") {
    Kernel(name, stream, begin, length,
           fmt::format(R"(,"Collective name":"{}","In msg nelems":{},"Out msg nelems":{},)"
                       R"("Group size":{},"dtype":"Float"{})",
                       collective, elements, elements, world_, arguments));
  }
  void Launch(int correlation, double begin, double length, int thread = 100) {
    Event(fmt::format(
        R"({{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":99,"tid":{},"ts":{},)"
        R"("dur":{},"args":{{"correlation":{}}}}})",
        thread, begin, length, correlation));
  }
  void Annotation(const std::string& name, double begin, double length, int thread = 100,
                  const std::string& category = "user_annotation") {
    Event(fmt::format(R"({{"ph":"X","cat":"{}","name":"{}","pid":99,"tid":{},"ts":{},"dur":{}}})",
                      category, name, thread, begin, length));
  }

  std::string Text() const {
    return fmt::format(
        R"({{"schemaVersion":1,"distributedInfo":{{"backend":"nccl","rank":{},"world_size":{}}},)"
        "\"traceEvents\":[\n{}\n]}}\n",
        rank_, world_, events_);
  }
  const std::string& events() const { return events_; }

 private:
  int rank_, world_;
  std::string events_;
};

}  // namespace stepsim::testing
