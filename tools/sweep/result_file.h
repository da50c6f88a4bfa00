// Where do rows go so that nothing is lost? Lines are appended whole and in order: what was written
// before a kill, a full disk or a crash stays, a cut last line is taken off when the file is
// continued.
//
//   ResultFile file("out.jsonl", header, ResultFile::Existing::kResume);
//   file.SkipDone([&](std::uint64_t index) { return points.Next() == index; });
//   file.Append(line);
//   file.Finish();
//
// While the file is open no other process can open it as a ResultFile (an advisory lock).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tools/sweep/result_header.h"

namespace stepsim {

class ResultFile {
 public:
  enum class Existing { kRefuse, kResume, kReplace };

  // Throws ConfigError when there is a file that must not be touched: of others, of another sweep,
  // in use, or any without kResume or kReplace. Throws std::runtime_error when it cannot be opened.
  ResultFile(const std::string& path, const ResultHeader& header, Existing existing);
  ~ResultFile();
  ResultFile(const ResultFile&) = delete;
  ResultFile& operator=(const ResultFile&) = delete;

  // Gives the index of each row that is there to `is_next`, which says whether it is the one that
  // belongs there; returns their number. Cuts an incomplete last line off. Writes the header where
  // there is none.
  std::uint64_t SkipDone(const std::function<bool(std::uint64_t)>& is_next);

  // Appends whole lines. Throws std::runtime_error; what was there stays, whole lines only.
  void Append(std::string_view lines);
  // Makes sure that it is on the disk. Throws std::runtime_error.
  void Finish();

 private:
  void Lock();
  void OpenFile(Existing existing);
  bool IsRegular() const;
  // The bytes that whole, right lines take; 0 without a header.
  std::uint64_t CheckLines(const std::function<bool(std::uint64_t)>& is_next,
                           std::uint64_t& rows) const;
  [[noreturn]] void Fail(int error) const;

  std::string path_;
  ResultHeader header_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;  // of whole lines
};

}  // namespace stepsim
