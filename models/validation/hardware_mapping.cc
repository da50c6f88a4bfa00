// Which machine was it? The GPU's name chooses a profile of configs/hardware, where needed with the
// figures of a sibling's datasheet; the links' texts choose its fabric. Values that a text states
// (rates, adapters, what was reached) replace the profile's.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "models/validation/mapping.h"

namespace stepsim {
namespace {

struct GpuRule {
  std::string_view words;  // of gpu (else gpu_class) with intra_link
  std::string_view profile;
  std::int64_t domain;        // GPUs that intra_node joins
  std::string_view settings;  // what differs from the profile
  std::string_view why;       // of the settings
};

// The first row that matches.
constexpr std::array kGpus = {
    GpuRule{"gb300", "gb300-nvl72", 72, "", ""},
    GpuRule{"gb200", "gb200-nvl72", 72, "", ""},
    GpuRule{"gh200", "gh200-slingshot", 4, "", ""},
    GpuRule{"b300", "b200-dgx", 8,
            "hardware.gpu.name=B300-SXM-288GB; hardware.gpu.memory=288 GB; "
            "hardware.network.link.bandwidth=800 Gb/s",
            "DGX B300: B200's dense bf16 and fp8 rates, 288 GB, ConnectX-8 (NVIDIA datasheet)"},
    GpuRule{"b200", "b200-dgx", 8, "", ""},
    GpuRule{"h200", "h200-dgx", 8, "", ""},
    GpuRule{
        "h100 96gb hbm2e", "h100-sxm-dgx", 8,
        "hardware.gpu.name=H100-SXM-96GB; hardware.gpu.memory=96 GiB; "
        "hardware.gpu.hbm_bandwidth=2400 GB/s; hardware.gpu.gemm_efficiency=0.63",
        "96 GB of HBM2e at 2.4 TB/s and 500 W (torchtitan's benchmark notes): under a power limit "
        "the clock follows its third root, 0.894 of the 700 W part's"},
    GpuRule{"h100 pcie", "h100-sxm-dgx", 8,
            "hardware.gpu.name=H100-PCIe-80GB; hardware.gpu.sms=114; "
            "hardware.gpu.peak.fp32=51 TFLOP/s; hardware.gpu.peak.tf32=378 TFLOP/s; "
            "hardware.gpu.peak.bf16=756 TFLOP/s; hardware.gpu.peak.fp16=756 TFLOP/s; "
            "hardware.gpu.peak.fp8=1513 TFLOP/s; hardware.gpu.hbm_bandwidth=2000 GB/s; "
            "hardware.intra_node.type=pcie; hardware.intra_node.bandwidth=64 GB/s; "
            "hardware.switched=false",
            "NVIDIA H100 datasheet, PCIe part"},
    GpuRule{"h800", "h100-sxm-dgx", 8,
            "hardware.gpu.name=H800-SXM5-80GB; hardware.intra_node.bandwidth=200 GB/s",
            "H800: H100 with 400 GB/s of NVLink in both directions"},
    GpuRule{"h100", "h100-sxm-dgx", 8, "", ""},
    GpuRule{"a100 pcie 40gb", "a100-80g-pcie", 8,
            "hardware.gpu.memory=40 GiB; hardware.gpu.hbm_bandwidth=1555 GB/s",
            "NVIDIA A100 datasheet"},
    GpuRule{"a100 pcie", "a100-80g-pcie", 8, "", ""},
    GpuRule{"a100 40gb", "a100-40g-dgx", 8, "", ""},
    GpuRule{"a100 40_gb", "a100-40g-dgx", 8, "", ""},
    GpuRule{"a100", "a100-80g-dgx", 8, "", ""},
    GpuRule{"v100 nvswitch", "v100-dgx1", 16,
            "hardware.switched=true; hardware.gpus_per_node=16; hardware.network.nics_per_node=8",
            "DGX-2: sixteen V100 behind NVSwitch"},
    GpuRule{"v100 pcie", "v100-pcie", 8, "", ""},
    GpuRule{"v100 16gb", "v100-dgx1", 8, "hardware.gpu.memory=16 GiB", "the 16 GB part"},
    GpuRule{"v100 16_gb", "v100-dgx1", 8, "hardware.gpu.memory=16 GiB", "the 16 GB part"},
    GpuRule{"v100", "v100-dgx1", 8, "", ""},
    GpuRule{"rtx_pro_6000", "rtx-pro-6000-pcie", 8, "", ""},
    GpuRule{"l40s", "l40s-pcie", 8, "", ""},
    GpuRule{"rtx_4090", "rtx4090-pcie", 8, "", ""},
    GpuRule{"rtx_6000_ada", "l40s-pcie", 8,
            "hardware.gpu.name=RTX-6000-Ada-48GB; hardware.gpu.hbm_bandwidth=960 GB/s; "
            "hardware.gpu.memory=48 GiB",
            "the same AD102 die with 142 SMs; memory of the RTX 6000 Ada datasheet"},
    GpuRule{"rtx_a6000", "a40-pcie", 8,
            "hardware.gpu.name=RTX-A6000-48GB; hardware.gpu.hbm_bandwidth=768 GB/s",
            "the same GA102 die; memory of the RTX A6000 datasheet"},
    GpuRule{"rtx_3090", "a40-pcie", 8,
            "hardware.gpu.name=RTX-3090-24GB; hardware.gpu.sms=82; "
            "hardware.gpu.peak.fp32=35.6 TFLOP/s; hardware.gpu.peak.tf32=35.6 TFLOP/s; "
            "hardware.gpu.peak.bf16=71 TFLOP/s; hardware.gpu.peak.fp16=71 TFLOP/s; "
            "hardware.gpu.hbm_bandwidth=936 GB/s; hardware.gpu.memory=24 GiB",
            "GA102 whitepaper: dense rates with fp32 accumulation, half of the A40's per SM"},
    GpuRule{"a40", "a40-pcie", 8, "", ""},
    GpuRule{"tesla t4", "t4-pcie", 8, "", ""},
    GpuRule{"=t4", "t4-pcie", 8, "", ""},
};

// A fabric by its name; the profile's own where it has no rate of its own.
constexpr std::array kFabrics = {
    TextRule{"none", "", ""},
    TextRule{"", "", "the profile's network"},
    TextRule{"simulator_config", "", ""},
    TextRule{"omni_path", "network.base=omnipath-4x100g", ""},
    TextRule{"efa", "network.base=efa-4x100g", ""},
    TextRule{"slingshot", "", ""},
    TextRule{"roce", "network.base=roce-8x400g", ""},
    TextRule{"infiniband", "", ""},
    TextRule{"hdr", "", ""},
    TextRule{"ndr", "", ""},
    TextRule{"edr", "", ""},
    TextRule{"rdma", "", ""},
    TextRule{"tcp", "network.base=ethernet-100g", ""},
    TextRule{"ethernet", "network.base=ethernet-100g", ""},
    TextRule{"gb_s", "", ""},
};

constexpr std::array kIntraLinks = {
    TextRule{"", "", ""},     TextRule{"nvlink", "", ""},    TextRule{"nvswitch", "", ""},
    TextRule{"pcie", "", ""}, TextRule{"cube_mesh", "", ""}, TextRule{"none", "", ""},
};

// "4x 100 Gb/s EDR per node (about 135 Gb/s reached)"
struct LinkText {
  std::int64_t count = 0;  // "4x"
  double gbps = 0;         // the first rate
  double reached = 0;      // "... reached", "... usable"
  bool is_per_gpu = false;
};

std::optional<double> NumberBefore(std::string_view text, std::size_t end) {
  while (end > 0 && text[end - 1] == ' ') --end;
  std::size_t begin = end;
  while (begin > 0 && (std::isdigit(static_cast<unsigned char>(text[begin - 1])) != 0 ||
                       text[begin - 1] == '.')) {
    --begin;
  }
  if (begin == end || end - begin > 9) return std::nullopt;
  double value = 0, digit = 0;
  for (std::size_t i = begin; i < end; ++i) {
    if (text[i] == '.') {
      digit = 0.1;
    } else if (digit > 0) {
      value += digit * (text[i] - '0');
      digit /= 10;
    } else {
      value = value * 10 + (text[i] - '0');
    }
  }
  return value;
}

LinkText ReadLink(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  LinkText link;
  link.is_per_gpu = text.find("per gpu") != std::string::npos;
  for (const std::string_view unit : {"gb/s", "gbps", "gbit/s", "gbe"}) {
    for (std::size_t at = text.find(unit); at != std::string::npos; at = text.find(unit, at + 1)) {
      const auto value = NumberBefore(text, at);
      if (!value) continue;
      const std::string after = text.substr(at, 20);
      const bool is_reached =
          after.find("reached") != std::string::npos || after.find("usable") != std::string::npos;
      (is_reached ? link.reached : link.gbps) = *value;
    }
  }
  if (const std::size_t times = text.find("x "); times != std::string::npos) {
    if (const auto count = NumberBefore(text, times)) {
      link.count = static_cast<std::int64_t>(*count);
    }
  }
  return link;
}

void MapRates(RowJob& job, std::int64_t gpus_per_node) {
  const LinkText link = ReadLink(std::string(job.row().Text("inter_link")));
  constexpr double kMostGbps = 1e5;
  if (link.gbps > kMostGbps || link.count > 1024) {
    return job.Skip("inter_link", fmt::format("found '{}'", job.row().Text("inter_link")));
  }
  if (link.reached > 0) {  // a measured rate of a node is worth more than a nominal one
    const std::int64_t nics = std::max<std::int64_t>(link.count, 1);
    job.SetInteger("network.nics_per_node", nics);
    job.Set("network.link.bandwidth",
            fmt::format("{} Gb/s", link.reached / static_cast<double>(nics)));
    job.Set("network.link.efficiency", "1");
  } else if (link.gbps > 0) {
    // A total per node is dealt out to one adapter of each GPU.
    const std::int64_t nics = link.count > 0 ? link.count : gpus_per_node;
    const double rate =
        link.count > 0 || link.is_per_gpu ? link.gbps : link.gbps / static_cast<double>(nics);
    job.SetInteger("network.nics_per_node", nics);
    job.Set("network.link.bandwidth", fmt::format("{} Gb/s", rate));
  }
}

std::string GpuText(const PublishedRow& row) {
  const std::string gpu = PlainWords(row.IsFilled("gpu") ? row.Text("gpu") : row.Text("gpu_class"));
  return gpu + " " + PlainWords(row.Text("intra_link"));
}

// GPUs of one NVLink domain that a job uses of each rack: the most that divide its size.
std::int64_t OfEachDomain(std::int64_t gpus, std::int64_t domain) {
  for (std::int64_t part = domain; part > 1; --part) {
    if (gpus % part == 0) return part;
  }
  return 1;
}

void MapNodes(RowJob& job, std::int64_t domain) {
  const std::int64_t gpus = job.degrees.gpus;
  std::int64_t per_node = domain;
  if (domain <= 16) {
    if (job.row().IsFilled("gpus_per_node")) {
      per_node = job.Integer("gpus_per_node", domain);
    } else if (gpus > domain) {
      job.Assume(fmt::format("gpus_per_node: {}", domain), "as the profile");
    }
  } else if (gpus > domain) {
    per_node = OfEachDomain(gpus, domain);
    job.Assume(fmt::format("{} GPUs of each rack", per_node), "the most that divide n_gpus");
  }
  per_node = std::min(per_node, gpus);
  if (gpus % per_node != 0) {
    return job.Skip("gpus_per_node",
                    fmt::format("found {}, no divisor of n_gpus {}", per_node, gpus));
  }
  job.SetInteger("nodes", gpus / per_node);
  job.SetInteger("gpus_per_node", per_node);
  if (gpus > per_node && domain <= 16) MapRates(job, per_node);
}

}  // namespace

void MapHardware(RowJob& job) {
  const PublishedRow& row = job.row();
  const std::string text = GpuText(row);
  if (!row.IsFilled("gpu") && !row.IsFilled("gpu_class")) return job.Skip("gpu", "not stated");
  for (const GpuRule& rule : kGpus) {
    if (!MatchesWords(text, rule.words)) continue;
    job.Set("hardware.base", std::string(rule.profile));
    for (const auto& [path, value] : ParseRuleSettings(rule.settings)) job.Set(path, value);
    if (job.degrees.gpus > rule.domain) job.ApplyFirst("inter_link", kFabrics);
    job.ApplyFirst("intra_link", kIntraLinks);
    return MapNodes(job, rule.domain);
  }
  job.Skip("gpu", fmt::format("found '{}', of which there is no profile", row.Text("gpu")));
}

}  // namespace stepsim
