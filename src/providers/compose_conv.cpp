// Rewriting of convolutions: a filter of one tap as a GEMM, channels-first tensors through channels-last ones, results through
// sums in fp32.
#include <algorithm>

#include "kernels/common/contraction.hpp"
#include "kernels/host_packed.hpp"
#include "providers/compose_rewrite.hpp"

namespace attune::compose {
namespace {

std::size_t padded(std::size_t bytes) noexcept { return (bytes + 255) / 256 * 256; }
std::int64_t volume(const Dims& dims) noexcept {
  std::int64_t v = 1;
  for (int i = 0; i < dims.count; ++i) v *= dims.size[i];
  return v;
}

const std::int64_t* strides_out(const ConvProblem& p) noexcept {
  return p.direction == Direction::fwd ? p.y_stride : p.direction == Direction::dgrad ? p.x_stride : p.w_stride;
}

/// A filter of one tap, stride 1, no padding: a GEMM as it stands, where the strides are those of matrices.
std::optional<Rewrite> as_gemm(const Problem& problem) {
  const auto* p = std::get_if<ConvProblem>(&problem);
  StridedContraction s;
  if (p == nullptr || !pointwise(*p, s)) return std::nullopt;
  // One of the two batch dimensions may be left, and the tensors must run on along one direction of each matrix.
  const int z = s.batch[0] > 1 ? 0 : 1;
  if (s.batch[1 - z] > 1 || (s.d_i != 1 && s.m > 1)) return std::nullopt;
  const auto one = [](std::int64_t step, std::int64_t extent) { return step == 1 || extent == 1; };
  const bool a_n = one(s.a_i, s.m), b_n = one(s.b_l, s.k);
  if ((!a_n && !one(s.a_l, s.k)) || (!b_n && !one(s.b_j, s.n))) return std::nullopt;
  GemmProblem g(a_n ? Op::N : Op::T, b_n ? Op::N : Op::T, s.m, s.n, s.k, s.a_type);
  g.b_type = s.b_type, g.c_type = s.c_type, g.compute = p->compute;
  g.batch = s.batch[z];
  const auto leading = [](std::int64_t ld, std::int64_t rows) { return std::max(ld, std::max<std::int64_t>(rows, 1)); };
  g.lda = a_n ? leading(s.a_l, s.m) : leading(s.a_i, s.k);
  g.ldb = b_n ? leading(s.b_j, s.k) : leading(s.b_l, s.n);
  g.ldc = g.ldd = leading(s.d_j, s.m);
  g.stride_a = s.a_z[z], g.stride_b = s.b_z[z], g.stride_c = g.stride_d = s.d_z[z];
  // With one column the leading dimension is free, but every column of more must begin where the tensor's does.
  if ((s.n > 1 && g.ldd != s.d_j) || g.stride_a < 0 || g.stride_b < 0) return std::nullopt;
  g.alpha = p->alpha, g.beta = p->beta, g.epilogue = p->epilogue, g.align_bias = p->align_bias;
  if (has_bias(p->epilogue) && (s.bias_i != 1 || s.bias_z[z] != 0)) return std::nullopt;
  const bool wgrad = p->direction == Direction::wgrad, dgrad = p->direction == Direction::dgrad;
  const int first = dgrad ? p->align_y : p->align_x, second = wgrad ? p->align_y : p->align_w;
  const int out = wgrad ? p->align_w : dgrad ? p->align_x : p->align_y;
  g.align_a = s.swapped ? second : first, g.align_b = s.swapped ? first : second;
  g.align_d = out, g.align_c = p->beta == Scalar::zero ? 16 : out;
  const Problem inner = g;
  try {
    validate(inner);
  } catch (const Error&) {
    return std::nullopt;  // steps that only a convolution can have
  }
  Rewrite r;
  r.inner = inner;
  r.exchanged = s.swapped;
  return r;
}

/// Channels first and packed: outputs and inputs change places of channels and positions through the workspace.
bool is_packed_first(const Dims& dims, const std::int64_t* stride) noexcept {
  std::int64_t step = 1;
  for (int i = dims.count - 1; i >= 0; --i) {
    if (dims.size[i] != 1 && stride[i] != step) return false;
    step *= dims.size[i];
  }
  return true;
}

/// Copies a packed channels-first tensor to a packed channels-last one.
void copy_channels_last(Rewrite& r, Operand operand, const Dims& dims, DType type) {
  const std::int64_t channels = dims.size[1], positions = volume(dims) / (dims.size[0] * channels);
  Copy c;
  c.operand = operand;
  c.shape.matrices = dims.size[0];
  c.shape.lines = c.shape.padded_lines = positions;
  c.shape.places = c.shape.padded_places = channels;
  c.shape.from_matrix = channels * positions, c.shape.from_line = 1, c.shape.from_place = positions;
  c.shape.to_matrix = channels * positions, c.shape.to_line = channels;
  c.shape.from_elements = volume(dims);
  c.shape.element_bytes = static_cast<int>(size_of(type));
  c.at = r.workspace;
  r.workspace += padded(static_cast<std::size_t>(volume(dims)) * size_of(type));
  r.copies.push_back(c);
}

bool plain(const ConvProblem& p) noexcept {
  return p.alpha == Scalar::one && p.beta == Scalar::zero && p.epilogue == Epilogue::none;
}

/// The result goes to the workspace, in the output's own type where nothing but rounding is left to do.
void send_through_sums(Rewrite& r, const ConvProblem& p, ConvProblem& inner, bool turned) {
  const bool fwd = p.direction == Direction::fwd;
  DType& type = fwd ? inner.y_type : p.direction == Direction::dgrad ? inner.x_type : inner.w_type;
  const DType out_type = type;
  if (!plain(p)) type = p.compute == Compute::f64 ? DType::f64 : DType::f32;
  inner.alpha = Scalar::one, inner.beta = Scalar::zero, inner.epilogue = Epilogue::none;
  inner.align_bias = 16;
  (fwd ? inner.align_y : p.direction == Direction::dgrad ? inner.align_x : inner.align_w) = 16;
  const Dims dims = fwd ? p.y() : p.direction == Direction::dgrad ? p.x : p.w;
  const std::int64_t channels = dims.size[1], positions = volume(dims) / (dims.size[0] * channels);
  r.through_sums = true;
  FinishShape& f = r.finish;
  f.matrices = dims.size[0], f.lines = channels, f.places = positions;
  f.d_matrix = f.c_matrix = channels * positions, f.d_line = f.c_line = positions;
  f.type = out_type, f.sum_type = type;
  f.turned = turned, f.bias_by_line = true;
  r.sums_at = r.workspace;
  r.workspace += padded(static_cast<std::size_t>(volume(dims)) * size_of(type));
}

std::optional<Rewrite> channels_last(const Problem& problem) {
  const auto* p = std::get_if<ConvProblem>(&problem);
  const Dims y = p == nullptr ? Dims() : p->y();
  if (p == nullptr || !is_packed_first(p->x, p->x_stride) || !is_packed_first(p->w, p->w_stride) || !is_packed_first(y, p->y_stride))
    return std::nullopt;
  if (p->x.size[1] == 1 && p->w.size[0] == 1) return std::nullopt;
  Rewrite r;
  ConvProblem inner = *p;
  inner.layout = Layout::nhwc;
  for (int i = 0; i < 5; ++i) inner.x_stride[i] = inner.w_stride[i] = inner.y_stride[i] = packed;
  switch (p->direction) {
    case Direction::fwd:
      copy_channels_last(r, Operand::a, p->x, p->x_type), copy_channels_last(r, Operand::b, p->w, p->w_type);
      break;
    case Direction::dgrad:
      copy_channels_last(r, Operand::a, y, p->y_type), copy_channels_last(r, Operand::b, p->w, p->w_type);
      break;
    case Direction::wgrad:
      copy_channels_last(r, Operand::a, p->x, p->x_type), copy_channels_last(r, Operand::b, y, p->y_type);
      break;
  }
  inner.align_x = inner.align_w = inner.align_y = 16;
  send_through_sums(r, *p, inner, true);
  r.inner = resolve(inner);
  return r;
}

/// Scalars and an epilogue behind any kernel.
std::optional<Rewrite> through_sums(const Problem& problem) {
  const auto* p = std::get_if<ConvProblem>(&problem);
  if (p == nullptr || plain(*p)) return std::nullopt;
  const Dims dims = p->direction == Direction::fwd ? p->y() : p->direction == Direction::dgrad ? p->x : p->w;
  const std::int64_t* stride = strides_out(*p);
  std::int64_t last[5];
  const std::int64_t channels = dims.size[1];
  // Either order of the output, packed.
  std::int64_t step = channels;
  last[1] = 1;
  for (int i = dims.count - 1; i >= 2; --i) last[i] = step, step *= dims.size[i];
  last[0] = step;
  bool is_last = true;
  for (int i = 0; i < dims.count; ++i) is_last = is_last && (dims.size[i] == 1 || stride[i] == last[i]);
  if (!is_last && !is_packed_first(dims, stride)) return std::nullopt;
  Rewrite r;
  ConvProblem inner = *p;
  send_through_sums(r, *p, inner, false);
  if (is_last) {
    FinishShape& f = r.finish;
    f.lines = f.matrices * f.places, f.places = channels, f.matrices = 1;
    f.d_line = f.c_line = channels, f.d_matrix = f.c_matrix = 0;
    f.bias_by_line = false;
  }
  r.inner = inner;
  return r;
}

}  // namespace

const Kind conv_kinds[] = {{"gemm", as_gemm}, {"nhwc", channels_last}, {"conv_sums", through_sums}};
const std::size_t conv_kind_count = std::size(conv_kinds);

}  // namespace attune::compose
