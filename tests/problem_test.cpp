// Text, validation and geometry of problems.
#include <gtest/gtest.h>

#include <limits>

#include "core/device_info.hpp"
#include "core/problem.hpp"
#include "core/tolerance.hpp"
#include "tune/key.hpp"

namespace attune {
namespace {

ConvProblem resnet() {
  ConvProblem p(Direction::dgrad, {32, 64, 56, 56}, {128, 32, 3, 5});
  p.groups = 2;
  p.pad = Padding(Spatial(1, 2), Spatial(0, 3));
  p.stride = {2, 1};
  p.dilation = {1, 2};
  p.layout = Layout::nhwc;
  p.set_dtype(DType::bf16);
  return p;
}

GemmProblem gemm() {
  GemmProblem p(Op::T, Op::N, 100, 50, 30, DType::f16);
  p.c_type = DType::f32;
  p.lda = 32;
  p.batch = 7;
  p.stride_b = 0;
  p.beta = Scalar::other;
  p.align_c = 4;
  return p;
}

std::string why_refused(const Problem& p, Status expected = Status::invalid_argument) {
  try {
    validate(p);
  } catch (const Error& e) {
    EXPECT_EQ(e.status(), expected) << e.what();
    return e.what();
  }
  return "";
}

TEST(ProblemText, OmitsDefaultsAndIsReadBack) {
  EXPECT_EQ(to_string(GemmProblem(Op::N, Op::N, 8, 8, 8, DType::f32)), "gemm m=8 n=8 k=8");
  EXPECT_EQ(to_string(gemm()), "gemm op_a=T m=100 n=50 k=30 batch=7 a=f16 c=f32 lda=32 stride_b=0 beta=other align_c=4");
  for (const Problem& p : {Problem(gemm()), Problem(resnet())}) {
    const std::string text = to_string(p);
    EXPECT_EQ(to_string(parse_problem(text)), text);
    EXPECT_EQ(to_string(resolve(p)), text) << "resolving changes no meaning";
  }
}

TEST(ProblemText, PaddingAndStridesOfAConvolution) {
  EXPECT_EQ(to_string(resnet()),
            "conv dir=dgrad x=32,64,56,56 w=128,32,3,5 groups=2 pad=1,2 pad_after=0,3 stride=2,1 dilation=1,2 xt=bf16 layout=nhwc");
}

TEST(ProblemText, NamesTheWordThatCannotBeRead) {
  for (const char* text : {"", "gemv m=1", "gemm m=x", "gemm m=1 m=2", "gemm size=4", "conv x=1,2,3,4,5,6 w=1,1,1", "conv x=1,1,3 w=1,1,3 pad=1,1",
                           "gemm a=f17", "gemm m", "conv w=1,1,1", "gemm m=99999999999999999999"}) {
    try {
      parse_problem(text);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.status(), Status::invalid_argument);
      EXPECT_NE(std::string(e.what()).find("problem text"), std::string::npos);
    }
  }
}

TEST(Validate, AcceptsWhatTheContractAllows) {
  EXPECT_NO_THROW(validate(gemm()));
  EXPECT_NO_THROW(validate(resnet()));
  EXPECT_NO_THROW(validate(GemmProblem(Op::N, Op::T, 0, 5, 0, DType::f64)));
  ConvProblem empty(Direction::wgrad, {0, 4, 8}, {4, 4, 3});
  EXPECT_NO_THROW(validate(empty));
  EXPECT_TRUE(scales_only(empty));
  EXPECT_FALSE(empty_output(empty));
}

TEST(Validate, NamesArgumentAndValue) {
  const auto gemm_with = [](auto edit) {
    GemmProblem p(Op::N, Op::T, 10, 20, 30, DType::f32);
    edit(p);
    return p;
  };
  EXPECT_NE(why_refused(gemm_with([](auto& p) { p.lda = 9; })).find("lda = 9"), std::string::npos);
  EXPECT_NE(why_refused(gemm_with([](auto& p) { p.ldb = 19; })).find("ldb = 19: must be at least 20"), std::string::npos);
  EXPECT_NE(why_refused(gemm_with([](auto& p) { p.m = -1; })).find("m = -1"), std::string::npos);
  EXPECT_NE(why_refused(gemm_with([](auto& p) { p.batch = -3; })).find("batch = -3"), std::string::npos);
  EXPECT_NE(why_refused(gemm_with([](auto& p) { p.a_type = static_cast<DType>(77); })).find("a_type = 77"), std::string::npos);
  EXPECT_NE(why_refused(gemm_with([](auto& p) { p.align_a = 3; })).find("align_a = 3"), std::string::npos);
  EXPECT_NE(why_refused(gemm_with([](auto& p) { p.align_d = 2; })).find("align_d = 2"), std::string::npos);
  EXPECT_NE(why_refused(gemm_with([](auto& p) { p.compute = Compute::f64; })).find("compute = f64"), std::string::npos);
  EXPECT_NE(why_refused(gemm_with([](auto& p) { p.batch = 2, p.stride_d = 0; })).find("stride_d = 0"), std::string::npos);
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max() / 2;
  EXPECT_NE(why_refused(gemm_with([&](auto& p) { p.n = huge, p.ldc = 100; })).find("overflows"), std::string::npos);
  // The last element lies at 2^63 - 1: one past it is no number any more.
  EXPECT_NE(why_refused(gemm_with([](auto& p) {
              p.m = 2, p.n = 2, p.ldc = p.ldd = std::numeric_limits<std::int64_t>::max() - 1;
            })).find("overflows"),
            std::string::npos);
  EXPECT_NE(why_refused(gemm_with([](auto& p) { p.op_a = Op::C; }), Status::unsupported).find("op_a = C"), std::string::npos);
  const auto types = [&](DType a, DType b, DType c) {
    return why_refused(gemm_with([&](auto& p) {
      p.a_type = a, p.b_type = b, p.c_type = c;
      if (c == DType::i32) p.compute = Compute::i32;
      p.align_a = p.align_b = p.align_c = p.align_d = 16;
    }), Status::unsupported);
  };
  EXPECT_NE(types(DType::f8_e4m3, DType::f16, DType::bf16).find("b_type = f16"), std::string::npos);
  EXPECT_NE(types(DType::f8_e4m3, DType::f8_e5m2, DType::f8_e4m3).find("c_type = f8_e4m3"), std::string::npos);
  EXPECT_NE(types(DType::i8, DType::i8, DType::f32).find("c_type = f32"), std::string::npos);
  EXPECT_NE(types(DType::i8, DType::f32, DType::i32).find("b_type = f32"), std::string::npos);
  EXPECT_NE(types(DType::f32, DType::f32, DType::i8).find("c_type = i8"), std::string::npos);
  EXPECT_NE(types(DType::f32, DType::f64, DType::f32).find("a_type = f32, b_type = f64, c_type = f32"), std::string::npos);
  EXPECT_NE(types(DType::i32, DType::i32, DType::i32).find("a_type = i32"), std::string::npos);
  GemmProblem whole(Op::N, Op::N, 4, 4, 4, DType::i8);
  whole.epilogue = Epilogue::relu;
  EXPECT_NE(why_refused(whole, Status::unsupported).find("epilogue = relu"), std::string::npos);
  whole.epilogue = Epilogue::none, whole.compute = Compute::f32;
  EXPECT_NE(why_refused(whole).find("compute = f32"), std::string::npos);
  EXPECT_NE(why_refused(gemm_with([](auto& p) { p.epilogue = static_cast<Epilogue>(99); })).find("epilogue = 99"), std::string::npos);
  EXPECT_NE(why_refused(gemm_with([](auto& p) { p.epilogue = Epilogue::relu, p.align_bias = 4; })).find("align_bias = 4"),
            std::string::npos);

  const auto conv_with = [](auto edit) {
    ConvProblem p(Direction::fwd, {2, 6, 9, 9}, {4, 3, 3, 3});
    p.groups = 2;
    edit(p);
    return p;
  };
  EXPECT_NE(why_refused(conv_with([](auto& p) { p.groups = 4; })).find("groups = 4: does not divide C = 6"), std::string::npos);
  EXPECT_NE(why_refused(conv_with([](auto& p) { p.w.size[1] = 6; })).find("w[1] = 6"), std::string::npos);
  EXPECT_NE(why_refused(conv_with([](auto& p) { p.x.count = 6; })).find("6 extents"), std::string::npos);
  EXPECT_NE(why_refused(conv_with([](auto& p) { p.stride = {0, 1}; })).find("stride[0] = 0"), std::string::npos);
  EXPECT_NE(why_refused(conv_with([](auto& p) { p.pad = Spatial(-1, 0); })).find("pad.before[0] = -1"), std::string::npos);
  EXPECT_NE(why_refused(conv_with([](auto& p) { p.dilation = 5; })).find("larger than the padded input"), std::string::npos);
  EXPECT_NE(why_refused(conv_with([](auto& p) { p.y_stride[3] = 0; })).find("overlap"), std::string::npos);
}

TEST(Geometry, OutputExtentsFollowPaddingStrideAndDilation) {
  const Dims y = resnet().y();
  EXPECT_EQ(y.size[0], 32);
  EXPECT_EQ(y.size[1], 128);
  EXPECT_EQ(y.size[2], (56 + 1 - 3) / 2 + 1);
  EXPECT_EQ(y.size[3], 56 + 2 + 3 - 9 + 1);
}

TEST(Geometry, SpansReachTheLastElement) {
  const Problem p = resolve(gemm());
  const Spans s = spans(p);
  EXPECT_EQ(s.a.elements, 6 * 32 * 100 + 99 * 32 + 30);
  EXPECT_EQ(s.b.elements, 30 * 50) << "one matrix for the whole batch";
  EXPECT_EQ(s.d.elements, 7 * 100 * 50);
  EXPECT_EQ(s.d.bytes(), 7u * 100 * 50 * 4);
}

TEST(Geometry, AlignmentIsClampedTo16) {
  EXPECT_EQ(alignment_of(reinterpret_cast<void*>(0x1000)), 16);
  EXPECT_EQ(alignment_of(reinterpret_cast<void*>(0x1008)), 8);
  EXPECT_EQ(alignment_of(reinterpret_cast<void*>(0x1002)), 2);
}

template <class P>
Key key_of(const P& p, const Constraints& c = {}) {
  Key key;
  std::fill(std::begin(key.word), std::end(key.word), 0xababababababababu);  // dirty memory
  make_key(p, pack(c), key);
  return key;
}

TEST(Key, EqualProblemsHashEqualOnDirtyMemory) {
  GemmProblem a = gemm(), b = gemm();
  b.ldb = 30, b.ldc = b.ldd = 100;  // spelled out what was packed
  Key ka = key_of(a), kb;
  make_key(b, pack({}), kb);
  EXPECT_TRUE(ka == kb);
  EXPECT_EQ(ka.hash, kb.hash);
  ConvProblem c = resnet(), d = resnet();
  d.pad.before[2] = 99, d.x.size[4] = 5;  // beyond the problem's rank
  EXPECT_TRUE(key_of(c) == key_of(d));
}

TEST(Key, EveryFieldCountsInMemoryAndInTheFile) {
  std::vector<Problem> all;
  const auto add_gemm = [&](auto edit) {
    GemmProblem p(Op::N, Op::N, 64, 64, 64, DType::f16);
    p.batch = 2;
    edit(p);
    all.push_back(p);
  };
  add_gemm([](auto&) {});
  add_gemm([](auto& p) { p.op_a = Op::T; });
  add_gemm([](auto& p) { p.op_b = Op::T; });
  add_gemm([](auto& p) { p.m = 65; });
  add_gemm([](auto& p) { p.n = 65; });
  add_gemm([](auto& p) { p.k = 65; });
  add_gemm([](auto& p) { p.batch = 3; });
  add_gemm([](auto& p) { p.a_type = DType::bf16; });
  add_gemm([](auto& p) { p.b_type = DType::bf16; });
  add_gemm([](auto& p) { p.c_type = DType::f32; });
  add_gemm([](auto& p) { p.lda = 72; });
  add_gemm([](auto& p) { p.ldb = 72; });
  add_gemm([](auto& p) { p.ldc = 72; });
  add_gemm([](auto& p) { p.ldd = 72; });
  add_gemm([](auto& p) { p.stride_a = 0; });
  add_gemm([](auto& p) { p.stride_b = 0; });
  add_gemm([](auto& p) { p.stride_c = 0; });
  add_gemm([](auto& p) { p.stride_d = 5000; });
  add_gemm([](auto& p) { p.alpha = Scalar::other; });
  add_gemm([](auto& p) { p.beta = Scalar::one; });
  add_gemm([](auto& p) { p.beta = Scalar::other; });
  add_gemm([](auto& p) { p.align_a = 8; });
  add_gemm([](auto& p) { p.align_b = 8; });
  add_gemm([](auto& p) { p.align_c = 8; });
  add_gemm([](auto& p) { p.align_d = 8; });
  add_gemm([](auto& p) { p.epilogue = Epilogue::bias; });
  add_gemm([](auto& p) { p.epilogue = Epilogue::bias, p.align_bias = 8; });
  // `packed` stands for a default only where it may: elsewhere it is a number, which validation refuses.
  add_gemm([](auto& p) { p.m = packed; });
  add_gemm([](auto& p) { p.batch = packed; });
  const auto add_conv = [&](auto edit) {
    ConvProblem p(Direction::fwd, {4, 8, 16, 16}, {8, 8, 3, 3});
    edit(p);
    all.push_back(p);
  };
  add_conv([](auto&) {});
  add_conv([](auto& p) { p.direction = Direction::dgrad; });
  add_conv([](auto& p) { p.direction = Direction::wgrad; });
  for (int i = 0; i < 4; ++i) add_conv([&](auto& p) { p.x.size[i] += i == 1 ? 8 : 1; });
  for (int i = 0; i < 4; ++i) add_conv([&](auto& p) { p.w.size[i] += 2; });
  add_conv([](auto& p) { p.groups = 2; });
  add_conv([](auto& p) { p.pad = Padding(Spatial(1, 0), Spatial(0, 0)); });
  add_conv([](auto& p) { p.pad = Padding(Spatial(0, 0), Spatial(1, 0)); });
  add_conv([](auto& p) { p.pad = Padding(Spatial(0, 0), Spatial(0, 1)); });
  add_conv([](auto& p) { p.stride = {2, 1}; });
  add_conv([](auto& p) { p.dilation = {1, 2}; });
  add_conv([](auto& p) { p.x_type = DType::f16; });
  add_conv([](auto& p) { p.w_type = DType::f16; });
  add_conv([](auto& p) { p.y_type = DType::f16; });
  add_conv([](auto& p) { p.layout = Layout::nhwc; });
  add_conv([](auto& p) { p.x_stride[0] = 5000; });
  add_conv([](auto& p) { p.w_stride[0] = 5000; });
  add_conv([](auto& p) { p.y_stride[0] = 5000; });
  add_conv([](auto& p) { p.alpha = Scalar::other; });
  add_conv([](auto& p) { p.beta = Scalar::one; });
  add_conv([](auto& p) { p.align_x = 8; });
  add_conv([](auto& p) { p.align_w = 8; });
  add_conv([](auto& p) { p.align_y = 8; });
  add_conv([](auto& p) { p.epilogue = Epilogue::relu; });
  add_conv([](auto& p) { p.groups = packed; });
  add_conv([](auto& p) { p.pad.before[1] = packed; });
  add_conv([](auto& p) { p.stride[0] = packed; });
  add_conv([](auto& p) { p.dilation[0] = packed; });
  all.push_back(ConvProblem(Direction::fwd, {4, 8, 16}, {8, 8, 3}));
  all.push_back(ConvProblem(Direction::fwd, {4, 8, 16, 1}, {8, 8, 3, 1}));

  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_NE(to_string(all[i]), to_string(all[j]));
      const Key a = std::visit([](auto& p) { return key_of(p); }, all[i]), b = std::visit([](auto& p) { return key_of(p); }, all[j]);
      EXPECT_FALSE(a == b) << to_string(all[i]) << " / " << to_string(all[j]);
      EXPECT_NE(a.hash, b.hash);
    }
}

TEST(Key, TheDevicesMemoryCountsInWholeGibibytes) {
  DeviceInfo a;
  a.name = "NVIDIA H200", a.cc_major = 9, a.processors = 132, a.l2_bytes = 62914560;
  DeviceInfo b = a;
  a.memory_bytes = 150121545728, b.memory_bytes = 150109880320;  // one type, two drivers
  EXPECT_EQ(a.key(), b.key());
  EXPECT_EQ(a.key(), "NVIDIA H200|9.0|132|62914560|140GiB");
  b.memory_bytes /= 2;
  EXPECT_NE(a.key(), b.key());
}

TEST(Key, ConstraintsCount) {
  const GemmProblem half(Op::N, Op::N, 8, 8, 8, DType::f16), single(Op::N, Op::N, 8, 8, 8, DType::f32);
  Constraints c, d;
  d.deterministic = true;
  EXPECT_FALSE(key_of(half, c) == key_of(half, d));
  EXPECT_NE(to_text(c), to_text(d));
  d = c;
  d.workspace_limit = 0;
  EXPECT_FALSE(key_of(half, c) == key_of(half, d));
  d = c;
  d.math = d.math | MathMode::tf32;
  EXPECT_FALSE(key_of(single, c) == key_of(single, d));
  EXPECT_TRUE(key_of(half, c) == key_of(half, d)) << "tf32 cannot matter for fp16";
  GemmProblem fast = single;
  fast.compute = Compute::f32_tf32;
  EXPECT_TRUE(key_of(single, d) == key_of(fast, c)) << "f32_tf32 is f32 with tf32 allowed";
  for (std::size_t limit : workspace_limits) {
    d.workspace_limit = limit;
    EXPECT_EQ(unpack(pack(d)), d);
  }
  EXPECT_EQ(round_workspace_limit(5 * mebibyte), 4 * mebibyte);
  EXPECT_EQ(round_workspace_limit(mebibyte - 1), 0u);
}

TEST(Tolerance, GrowsWithTheRootOfKAndKnowsTf32) {
  const Problem p = GemmProblem(Op::N, Op::N, 8, 8, 32768, DType::f16);
  const Tolerance t = tolerance(p, {}, Accumulation::tensor_core);
  EXPECT_NEAR(t.bound(0, 1, 32768) / t.bound(0, 1, 8192), 2, 0.01);
  Constraints tf32;
  tf32.math = MathMode::tf32;
  const Problem single = GemmProblem(Op::N, Op::N, 8, 8, 8, DType::f32);
  EXPECT_GT(tolerance(single, tf32, Accumulation::tensor_core).in, 0);
  EXPECT_EQ(tolerance(single, {}, Accumulation::plain).in, 0);
}

}  // namespace
}  // namespace attune
