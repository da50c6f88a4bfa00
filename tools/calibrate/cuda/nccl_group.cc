#include "tools/calibrate/cuda/nccl_group.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>

#include "tools/calibrate/cuda/check.h"
#include "tools/calibrate/cuda/kernels.h"

namespace stepsim::measure {
namespace {

// The id as hexadecimal digits, so that it travels as a text.
std::string WriteId(const ncclUniqueId& id) {
  std::string text;
  for (const char byte : id.internal)
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

ncclUniqueId ReadId(const std::string& text) {
  ncclUniqueId id{};
  if (text.size() != 2 * sizeof id.internal) {
    throw MeasureError("rank 0 sent something that is no NCCL id: is it another version?");
  }
  for (std::size_t i = 0; i < sizeof id.internal; ++i) {
    constexpr int kHexadecimal = 16;
    id.internal[i] =
        static_cast<char>(std::strtoul(text.substr(2 * i, 2).c_str(), nullptr, kHexadecimal));
  }
  return id;
}

class Collective : public Prepared {
 public:
  Collective(Communicator& communicator, const CollectiveTask& task)
      : communicator_(communicator), call_(communicator, task) {}

  // Back to back, as nccl-tests does it. In the call before, which is not timed, the ranks' devices
  // meet: the hosts come at different times.
  Sample Take(int inner) override {
    call_.Enqueue(stream_);
    begin_.Record(stream_);
    for (int i = 0; i < inner; ++i) call_.Enqueue(stream_);
    end_.Record(stream_);
    communicator_.Await(end_);
    return {SecondsBetween(begin_, end_) / inner};
  }

  std::map<std::string, std::string> Facts() const override {
    const auto variable = [](const char* name) {
      const char* value = std::getenv(name);
      return std::string(value == nullptr ? "" : value);
    };
    return {{"algorithm", variable("NCCL_ALGO")}, {"protocol", variable("NCCL_PROTO")}};
  }

 private:
  Communicator& communicator_;
  Stream stream_;
  Event begin_, end_;
  NcclCall call_;
};

}  // namespace

std::string NcclVersion() {
  int version = 0;
  CheckNccl(ncclGetVersion(&version), "ncclGetVersion");
  constexpr int kMajor = 10000, kMinor = 100;
  return fmt::format("{}.{}.{}", version / kMajor, version % kMajor / kMinor, version % kMinor);
}

Communicator::Communicator(Peers& peers, int max_ctas)
    : rank_(peers.rank()), ranks_(peers.ranks()), exceptions_(std::uncaught_exceptions()) {
  ncclUniqueId id{};
  if (rank_ == 0) CheckNccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  id = ReadId(peers.FromFirst(WriteId(id)));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (max_ctas > 0) config.maxCTAs = max_ctas;
  CheckNccl(ncclCommInitRankConfig(&comm_, ranks_, id, rank_, &config), "ncclCommInitRankConfig");
}

// After an error the other ranks may be gone: saying goodbye to them would wait for ever.
Communicator::~Communicator() {
  if (comm_ == nullptr) return;
  if (std::uncaught_exceptions() > exceptions_) {
    Abort();
  } else {
    Ignore(ncclCommDestroy(comm_));
  }
}

void Communicator::Abort() {
  Ignore(ncclCommAbort(comm_));
  comm_ = nullptr;
}

void Communicator::Await(const Event& event) {
  constexpr int kBetweenQuestions = 1000;
  for (int tries = 1; !event.IsDone(); ++tries) {
    std::this_thread::yield();
    if (tries % kBetweenQuestions != 0) continue;
    ncclResult_t error = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm_, &error);
    if (asked == ncclSuccess && (error == ncclSuccess || error == ncclInProgress)) continue;
    const std::string reason = ncclGetLastError(comm_);
    Abort();
    throw MeasureError(fmt::format("a collective failed on rank {}: NCCL reports {}: {}; {}", rank_,
                                   static_cast<int>(error), ncclGetErrorString(error), reason));
  }
}

Communicator& Communicators::WithLimit(int max_ctas) {
  std::unique_ptr<Communicator>& communicator = all_[max_ctas];
  if (!communicator) communicator = std::make_unique<Communicator>(peers_, max_ctas);
  return *communicator;
}

NcclCall::NcclCall(Communicator& communicator, const CollectiveTask& task)
    : communicator_(communicator),
      task_(task),
      part_(static_cast<std::size_t>(task.bytes) / sizeof(float) /
            static_cast<std::size_t>(communicator.ranks())),
      send_(static_cast<std::size_t>(task.bytes)),
      receive_(static_cast<std::size_t>(task.in_place ? 0 : task.bytes)) {
  if (part_ == 0) throw CannotMeasure("is less than one element per rank");
  const Stream stream;
  CheckCuda(
      FillRandom(send_.data(), send_.bytes() / sizeof(float), Pattern::kFp32, 1, stream.get()),
      "fill kernel");
  stream.Synchronize();
}

void NcclCall::Enqueue(const Stream& stream) const {
  auto* const send = reinterpret_cast<float*>(send_.data());
  auto* const receive = task_.in_place ? send : reinterpret_cast<float*>(receive_.data());
  const auto own = part_ * static_cast<std::size_t>(communicator_.rank());
  const ncclComm_t comm = communicator_.get();
  // The largest value: sums of sums would grow without end over many repetitions in place.
  switch (task_.op) {
    case CollectiveKind::kAllReduce:
      return CheckNccl(
          ncclAllReduce(send, receive, part_ * static_cast<std::size_t>(communicator_.ranks()),
                        ncclFloat, ncclMax, comm, stream.get()),
          "ncclAllReduce");
    case CollectiveKind::kAllGather:
      return CheckNccl(ncclAllGather(task_.in_place ? send + own : send, receive, part_, ncclFloat,
                                     comm, stream.get()),
                       "ncclAllGather");
    case CollectiveKind::kReduceScatter:
      return CheckNccl(ncclReduceScatter(send, task_.in_place ? send + own : receive, part_,
                                         ncclFloat, ncclMax, comm, stream.get()),
                       "ncclReduceScatter");
    case CollectiveKind::kAllToAll:
      return ToAll(send, receive, stream);
    case CollectiveKind::kSendRecv:
      return ToNext(send, receive, stream);
  }
}

void NcclCall::ToAll(const float* from, float* to, const Stream& stream) const {
  CheckNccl(ncclGroupStart(), "ncclGroupStart");
  for (int peer = 0; peer < communicator_.ranks(); ++peer) {
    const std::size_t at = part_ * static_cast<std::size_t>(peer);
    CheckNccl(ncclSend(from + at, part_, ncclFloat, peer, communicator_.get(), stream.get()),
              "ncclSend");
    CheckNccl(ncclRecv(to + at, part_, ncclFloat, peer, communicator_.get(), stream.get()),
              "ncclRecv");
  }
  CheckNccl(ncclGroupEnd(), "ncclGroupEnd");
}

void NcclCall::ToNext(const float* from, float* to, const Stream& stream) const {
  const int ranks = communicator_.ranks(), rank = communicator_.rank();
  const std::size_t count = static_cast<std::size_t>(task_.bytes) / sizeof(float);
  CheckNccl(ncclGroupStart(), "ncclGroupStart");
  CheckNccl(ncclSend(from, count, ncclFloat, (rank + 1) % ranks, communicator_.get(), stream.get()),
            "ncclSend");
  CheckNccl(
      ncclRecv(to, count, ncclFloat, (rank + ranks - 1) % ranks, communicator_.get(), stream.get()),
      "ncclRecv");
  CheckNccl(ncclGroupEnd(), "ncclGroupEnd");
}

std::unique_ptr<Prepared> PrepareNcclCollective(Communicators& all, const CollectiveTask& task) {
  return std::make_unique<Collective>(all.WithLimit(task.max_ctas), task);
}

}  // namespace stepsim::measure
