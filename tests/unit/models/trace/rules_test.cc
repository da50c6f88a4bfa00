// Names as they stand in real traces and in the sources of their libraries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/trace/kernel_rules.h"
#include "models/trace/site_rules.h"

namespace stepsim {
namespace {

struct Name {
  const char* name;
  KernelClass expected;
};

TEST(KernelRules, NamesOfRealKernels) {
  using C = KernelClass;
  const Name names[] = {
      // NCCL 2.17 and before, since 2.19, symmetric memory; RCCL; DeepEP; host backends.
      {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
       C::kCommunication},
      {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", C::kCommunication},
      {"ncclSymkDevKernel_AllReduce_RSxLD_AGxST_bf16", C::kCommunication},
      {"void deep_ep::internode::dispatch<false, 8>(int4*)", C::kCommunication},
      {"void intranode::combine", C::kOther},
      {"gloo:all_reduce", C::kCommunication},
      {"void vllm::cross_device_reduce_1stage<float, 2>(x)", C::kCommunication},
      // cuBLAS, CUTLASS, cuDNN, hipBLASLt.
      {"ampere_sgemm_128x64_nn", C::kGemm},
      {"nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNT", C::kGemm},
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", C::kGemm},
      {"void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4>(x)", C::kGemm},
      {"sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32", C::kGemm},
      {"void splitKreduce_kernel<float, float, float>(x)", C::kGemm},
      {"Cijk_Ailk_Bljk_BBS_BH_Bias_HAS_SAV", C::kGemm},
      {"cudnn_infer_ampere_scudnn_128x64_relu_xregs_large_nn_v1", C::kGemm},
      // Attention says "gemm" and "cutlass" too.
      {"void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64>>(x)", C::kAttention},
      {"fmha_cutlassF_bf16_aligned_64x64_rf_sm80(x)", C::kAttention},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16", C::kAttention},
      // Normalisation, elementwise.
      {"void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 128, true, 1>(x)",
       C::kNormalization},
      {"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(x)",
       C::kNormalization},
      {"void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>(x)",
       C::kElementwise},
      {"void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>(x)",
       C::kElementwise},
      {"void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(x)", C::kElementwise},
      {"triton_poi_fused_add_mul_0", C::kElementwise},
      {"Memcpy DtoD (Device -> Device)", C::kCopy},
      {"Memset (Device)", C::kCopy},
      {"my_own_kernel", C::kOther},
  };
  for (const Name& name : names) {
    EXPECT_EQ(ToString(ClassifyKernel(name.name).kernel_class), ToString(name.expected))
        << name.name;
  }
}

TEST(KernelRules, CollectivesByTheirNames) {
  const std::pair<const char*, CollectiveOp> names[] = {
      {"allreduce", CollectiveOp::kAllReduce},
      {"nccl:all_reduce", CollectiveOp::kAllReduce},
      {"ncclAllReduce", CollectiveOp::kAllReduce},
      {"_allgather_base", CollectiveOp::kAllGather},
      {"all_gather_into_tensor_coalesced", CollectiveOp::kAllGather},
      {"_reduce_scatter_base", CollectiveOp::kReduceScatter},
      {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)", CollectiveOp::kReduceScatter},
      {"all_to_allv", CollectiveOp::kAllToAll},
      {"nccl:all_to_all", CollectiveOp::kAllToAll},
      {"send", CollectiveOp::kSendRecv},
      {"ncclDevKernel_SendRecv(x)", CollectiveOp::kSendRecv},
      {"ncclKernel_Broadcast_RING_LL_Sum_int8_t(x)", CollectiveOp::kBroadcast},
      {"barrier", CollectiveOp::kBarrier},
      {"ncclKernel_Reduce_RING_LL_Sum_float(x)", CollectiveOp::kReduce},
  };
  for (const auto& [name, op] : names) EXPECT_EQ(CollectiveOf(name), op) << name;
  EXPECT_EQ(CollectiveOf("gemm"), std::nullopt);
}

TEST(KernelRules, TypesByTheirNames) {
  const std::pair<const char*, int> types[] = {
      {"Float", 4}, {"c10::BFloat16", 2}, {"BFloat16", 2},     {"Half", 2},          {"Long", 8},
      {"long", 8},  {"signed char", 1},   {"Byte", 1},         {"unsigned char", 1}, {"Double", 8},
      {"Int", 4},   {"float", 4},         {"Float8_e4m3fn", 1}};
  for (const auto& [name, bytes] : types) EXPECT_EQ(ElementBytes(name), bytes) << name;
  EXPECT_EQ(ElementBytes("TensorList"), 0);
}

// Each row can be reached: a row behind one that fits all it fits is dead.
TEST(SiteRules, TheLastRowFitsEverything) {
  const SiteRule& last = SiteRules().back();
  EXPECT_TRUE(last.ops.empty() && last.phases.empty() && last.group.empty() &&
              last.annotation.empty() && last.kernel.empty() && last.is_guess);
  const SiteChoice found = FindSite({.op = CollectiveOp::kBarrier});
  EXPECT_EQ(found.rule, SiteRules().size() - 1);
}

TEST(SiteRules, OperationAndPhaseWithoutAGroup) {
  EXPECT_EQ(FindSite({.op = CollectiveOp::kAllReduce, .phase = Phase::kBackward}).site,
            Site::kGradientReduce);
  EXPECT_FALSE(FindSite({.op = CollectiveOp::kAllReduce, .phase = Phase::kBackward}).is_guess);
  EXPECT_EQ(FindSite({.op = CollectiveOp::kAllReduce, .phase = Phase::kOptimizer, .bytes = 4}).site,
            Site::kOptimizer);
  EXPECT_EQ(FindSite({.op = CollectiveOp::kAllReduce, .phase = Phase::kForward}).site,
            Site::kTensorParallel);
  EXPECT_EQ(FindSite({.op = CollectiveOp::kAllGather, .annotation = "FSDP::all_gather"}).site,
            Site::kParameterGather);
}

}  // namespace
}  // namespace stepsim
