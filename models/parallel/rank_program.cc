#include "models/parallel/rank_program.h"

#include <array>

namespace stepsim {

void Meetings::Join(TaskGraphBuilder& graph, GroupId group, std::size_t call, TaskId member) {
  if (simulated_ranks_ == 1) return;  // a folded rank meets nobody
  const auto [position, is_new] = rendezvous_.try_emplace({group, call}, RendezvousId{});
  if (is_new) position->second = graph.AddRendezvous();
  graph.Join(position->second, member);
}

RankProgram::RankProgram(TaskGraphBuilder& graph, Meetings& meetings, RankId rank, bool models_host)
    : graph_(graph), meetings_(meetings), rank_(rank), compute_(AddStream("compute")) {
  if (models_host) host_ = graph_.AddStream(rank_, "host");
}

StreamId RankProgram::NoteStream(StreamId stream) {
  waits_[stream];
  return stream;
}

void RankProgram::SetPosition(Phase phase, Position position) {
  phase_ = phase;
  position_ = position;
}

TaskId RankProgram::AddTask(StreamId stream, const Work& work, std::string name, Site site,
                            StreamId queue) {
  graph_.SetPosition(position_);
  const LabelId label = graph_.AddLabel({std::move(name), site, phase_});
  if (queue == kNoId<StreamId>) return graph_.AddTask(graph_.AddWork(work), label, stream);
  return graph_.AddTask(graph_.AddWork(work), label, std::array{stream, queue});
}

TaskId RankProgram::Launch(StreamId stream, const Work& work, std::string name, Site site) {
  return LaunchOn(stream, kNoId<StreamId>, work, std::move(name), site);
}

TaskId RankProgram::LaunchOn(StreamId stream, StreamId queue, const Work& work, std::string name,
                             Site site) {
  TaskId launch = kNoId<TaskId>;
  if (host_ != kNoId<StreamId>) {
    const auto* kernel = std::get_if<ComputeWork>(&work);
    const HostWork host{.launches = kernel != nullptr ? kernel->kernels : 1};
    launch = AddTask(host_, host, "launch", Site::kNone);
    AddWaits(host_, launch);
  }
  const TaskId task = AddTask(stream, work, std::move(name), site, queue);
  if (launch != kNoId<TaskId>) graph_.AddDependency(launch, task);
  AddWaits(stream, task);
  return task;
}

void RankProgram::AddWaits(StreamId stream, TaskId task) {
  std::vector<TaskId>& waits = waits_[stream];
  for (const TaskId event : waits) graph_.AddDependency(event, task);
  waits.clear();
}

TaskId RankProgram::LaunchCollective(StreamId stream, const CollectiveWork& work, std::string name,
                                     Site site, StreamId communicator) {
  const TaskId task = LaunchOn(stream, communicator, work, std::move(name), site);
  meetings_.Join(graph_, work.group, calls_[work.group]++, task);
  return task;
}

void RankProgram::RunOnHost(const HostWork& work, std::string name) {
  if (host_ != kNoId<StreamId>) AddTask(host_, work, std::move(name), Site::kNone);
}

void RankProgram::BlockHost(StreamEvent event) {
  if (event.last == kNoId<TaskId>) return;
  for (auto& [stream, waits] : waits_) waits.push_back(event.last);
}

void RankProgram::Wait(StreamId stream, StreamEvent event) {
  if (event.last != kNoId<TaskId>) waits_[stream].push_back(event.last);
}

}  // namespace stepsim
