#include <fmt/format.h>

#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <unordered_map>

#include "core/problem.hpp"
#include "kernels/common/contraction.hpp"
#include "kernels/common/contraction.hpp"
#include "providers/host_libraries.hpp"

namespace attune {
namespace {

using Dim = dnnl::memory::dims;
using Desc = dnnl::memory::desc;

std::optional<dnnl::memory::data_type> type_of(DType type) {
  switch (type) {
    case DType::f16: return dnnl::memory::data_type::f16;
    case DType::bf16: return dnnl::memory::data_type::bf16;
    case DType::f32: return dnnl::memory::data_type::f32;
    default: return std::nullopt;
  }
}

/// One operand: as the caller lays it out, and as the primitive wants it.
struct Operand {
  Desc given, wanted;
  int arg = 0;
  std::size_t at = 0;       ///< of the reordered copy, in the workspace
  dnnl::primitive reorder{};  ///< given to wanted; of an output back again
  bool copies() const { return given != wanted; }
};

/// A finished primitive with the places of the call's operands.
struct Built {
  dnnl::primitive primitive;
  Operand a, b, d;
  dnnl::primitive load_d;  ///< given to wanted, where the primitive adds to a copy
  Desc scratch;
  bool portable = false;  ///< one of the library's plain loops
  std::size_t workspace = 0;
};

dnnl::primitive_attr attributes(bool add) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attr.set_fpmath_mode(dnnl::fpmath_mode::strict);
  if (add) {
    dnnl::post_ops ops;
    ops.append_sum(1.0f);
    attr.set_post_ops(ops);
  }
  return attr;
}

bool is_portable(const char* implementation) { return std::string_view(implementation).substr(0, 3) == "ref"; }

/// The library is row-major: D^T[n,m] = op(B)^T[n,k] * op(A)^T[k,m].
Built build(const GemmProblem& p, const dnnl::engine& engine, bool) {
  const GemmView v = view(p);
  const auto desc = [](Dim dims, DType type, Dim strides, std::int64_t batch_step) {
    if (batch_step == 0) dims[0] = 1, strides[0] = dims[1] * strides[1] + dims[2] * strides[2];
    return Desc(dims, *type_of(type), strides);
  };
  Built built;
  const std::int64_t z = v.batch;
  const auto step = [&](std::int64_t s) { return z == 1 ? 0 : s; };
  const Desc src = desc({z, v.n, v.k}, p.b_type, {v.b_z, v.b_j, v.b_l}, step(v.b_z));
  const Desc weights = desc({z, v.k, v.m}, p.a_type, {v.a_z, v.a_l, v.a_i}, step(v.a_z));
  const Desc dst = desc({z, v.n, v.m}, p.c_type, {v.d_z, v.ldd, 1}, step(v.d_z));
  const dnnl::matmul::primitive_desc made({src, weights, dst}, attributes(p.beta != Scalar::zero), engine);
  built.primitive = dnnl::matmul(made);
  built.portable = is_portable(made.impl_info_str());
  built.a = {weights, weights, DNNL_ARG_WEIGHTS}, built.b = {src, src, DNNL_ARG_SRC}, built.d = {dst, dst, DNNL_ARG_DST};
  built.scratch = made.scratchpad_desc();
  return built;
}

struct ConvDescs {
  Desc x, w, y;
  Dim stride, dilation, before, after;
};

ConvDescs describe(const ConvProblem& p) {
  const auto dims = [](const Dims& d) { return Dim(d.size, d.size + d.count); };
  const Dims y = p.y();
  Dim w_dims = dims(p.w), w_strides(p.w_stride, p.w_stride + p.w.count);
  if (p.groups > 1) {
    w_dims[0] /= p.groups;
    w_dims.insert(w_dims.begin(), p.groups);
    w_strides.insert(w_strides.begin(), w_dims[1] * p.w_stride[0]);
  }
  ConvDescs c;
  c.x = Desc(dims(p.x), *type_of(p.x_type), Dim(p.x_stride, p.x_stride + p.x.count));
  c.w = Desc(w_dims, *type_of(p.w_type), w_strides);
  c.y = Desc(dims(y), *type_of(p.y_type), Dim(p.y_stride, p.y_stride + y.count));
  for (int i = 0; i < p.spatial(); ++i) {
    c.stride.push_back(p.stride[i]);
    c.dilation.push_back(p.dilation[i] - 1);
    c.before.push_back(p.pad.before[i]);
    // What the stride leaves over at the end counts as so much less padding: the library's extents must come out exactly.
    const std::int64_t reach = p.dilation[i] * (p.w.size[2 + i] - 1) + 1;
    c.after.push_back((y.size[2 + i] - 1) * p.stride[i] + reach - p.x.size[2 + i] - p.pad.before[i]);
  }
  return c;
}

/// `free`: the library chooses the layouts, and the plan reorders.
Built build(const ConvProblem& p, const dnnl::engine& engine, bool free) {
  const ConvDescs c = describe(p);
  const auto chosen = [&](const Desc& desc) {
    return free ? Desc(desc.dims(), desc.data_type(), dnnl::memory::format_tag::any) : desc;
  };
  const Desc x = chosen(c.x), w = chosen(c.w), y = chosen(c.y);
  constexpr auto direct = dnnl::algorithm::convolution_direct;
  const dnnl::primitive_attr attr = attributes(p.beta != Scalar::zero);
  const auto forward = [&](const dnnl::primitive_attr& with) {
    return dnnl::convolution_forward::primitive_desc(
        {dnnl::prop_kind::forward_training, direct, x, w, y, c.stride, c.dilation, c.before, c.after}, with, engine);
  };
  Built built;
  const auto finish = [&](const auto& made) {
    built.portable = is_portable(made.impl_info_str());
    built.scratch = made.scratchpad_desc();
  };
  if (p.direction == Direction::fwd) {
    const auto made = forward(attr);
    built.primitive = dnnl::convolution_forward(made);
    built.a = {c.x, made.src_desc(), DNNL_ARG_SRC}, built.b = {c.w, made.weights_desc(), DNNL_ARG_WEIGHTS};
    built.d = {c.y, made.dst_desc(), DNNL_ARG_DST};
    finish(made);
  } else if (p.direction == Direction::dgrad) {
    const dnnl::convolution_backward_data::primitive_desc made({direct, x, w, y, c.stride, c.dilation, c.before, c.after}, attr,
                                                               engine, forward(attributes(false)));
    built.primitive = dnnl::convolution_backward_data(made);
    built.a = {c.y, made.diff_dst_desc(), DNNL_ARG_DIFF_DST}, built.b = {c.w, made.weights_desc(), DNNL_ARG_WEIGHTS};
    built.d = {c.x, made.diff_src_desc(), DNNL_ARG_DIFF_SRC};
    finish(made);
  } else {
    const dnnl::convolution_backward_weights::primitive_desc made({direct, x, w, y, c.stride, c.dilation, c.before, c.after},
                                                                  attr, engine, forward(attributes(false)));
    built.primitive = dnnl::convolution_backward_weights(made);
    built.a = {c.x, made.src_desc(), DNNL_ARG_SRC}, built.b = {c.y, made.diff_dst_desc(), DNNL_ARG_DIFF_DST};
    built.d = {c.w, made.diff_weights_desc(), DNNL_ARG_DIFF_WEIGHTS};
    finish(made);
  }
  return built;
}

/// Lays out the workspace (scratch first, then the copies, all aligned) and makes the reorders.
void complete(Built& built, const dnnl::engine& engine, bool adds) {
  std::size_t end = 0;
  const auto place = [&](std::size_t bytes) {
    const std::size_t at = end;
    end += (bytes + 255) / 256 * 256;
    return at;
  };
  const auto reorder = [&](const Desc& from, const Desc& to) {
    const dnnl::reorder::primitive_desc made(engine, from, engine, to, attributes(false));
    if (made.scratchpad_desc().get_size() != 0) throw dnnl::error(dnnl_unimplemented, "a reorder needs scratch memory");
    return dnnl::reorder(made);
  };
  place(built.scratch.get_size());
  for (Operand* operand : {&built.a, &built.b, &built.d}) {
    if (!operand->copies()) continue;
    operand->at = place(operand->wanted.get_size());
    const bool output = operand == &built.d;
    operand->reorder = output ? reorder(operand->wanted, operand->given) : reorder(operand->given, operand->wanted);
    if (output && adds) built.load_d = reorder(operand->given, operand->wanted);
  }
  built.workspace = end;
}

class OnednnPlan final : public Plan {
 public:
  OnednnPlan(const Problem& problem, dnnl::engine engine, Built built)
      : Plan("host:onednn", {.workspace = built.workspace, .deterministic = false}),
        problem_(problem),
        engine_(std::move(engine)),
        built_(std::move(built)) {
    visit_contraction(problem, [&](const auto& p) { adds_ = p.beta != Scalar::zero; });
  }

  Status run(const Launch& launch) const noexcept override {
    if (adds_ && launch.c != launch.d) visit_contraction(problem_, [&](const auto& p) { copy_c(p, launch); });
    try {
      const auto memory = [&](const Desc& desc, const void* at) { return dnnl::memory(desc, engine_, const_cast<void*>(at)); };
      const auto wanted = [&](const Operand& operand, const void* given) {
        const void* copy = static_cast<const char*>(launch.workspace) + operand.at;
        return memory(operand.wanted, operand.copies() ? copy : given);
      };
      dnnl::stream stream(engine_);
      const auto reorder = [&](const dnnl::primitive& primitive, const dnnl::memory& from, const dnnl::memory& to) {
        primitive.execute(stream, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
      };
      const dnnl::memory a = wanted(built_.a, launch.a), b = wanted(built_.b, launch.b), d = wanted(built_.d, launch.d);
      if (built_.a.copies()) reorder(built_.a.reorder, memory(built_.a.given, launch.a), a);
      if (built_.b.copies()) reorder(built_.b.reorder, memory(built_.b.given, launch.b), b);
      if (built_.d.copies() && adds_) reorder(built_.load_d, memory(built_.d.given, launch.d), d);
      built_.primitive.execute(stream, {{built_.a.arg, a},
                                        {built_.b.arg, b},
                                        {built_.d.arg, d},
                                        {DNNL_ARG_SCRATCHPAD, memory(built_.scratch, launch.workspace)}});
      if (built_.d.copies()) reorder(built_.d.reorder, d, memory(built_.d.given, launch.d));
      stream.wait();
    } catch (const std::bad_alloc&) {
      return Status::no_memory;
    } catch (const std::exception&) {
      return Status::device_error;
    }
    return Status::ok;
  }

 private:
  static void copy_c(const ConvProblem& p, const Launch& launch) noexcept {
    const ConvView v = view(p);
    const std::size_t size = size_of(spans(p).d.type);
    for (std::int64_t z = 0; z < v.batches(); ++z)
      for (std::int64_t i = 0; i < v.rows(); ++i)
        for (std::int64_t j = 0; j < v.cols(); ++j) {
          const std::size_t at = static_cast<std::size_t>(v.d_offset(i, j, z)) * size;
          std::memcpy(static_cast<char*>(launch.d) + at, static_cast<const char*>(launch.c) + at, size);
        }
  }
  static void copy_c(const GemmProblem& p, const Launch& launch) noexcept {
    const std::size_t size = size_of(p.c_type);
    for (std::int64_t z = 0; z < p.batch; ++z)
      for (std::int64_t j = 0; j < p.n; ++j)
        std::memcpy(static_cast<char*>(launch.d) + static_cast<std::size_t>(z * p.stride_d + j * p.ldd) * size,
                    static_cast<const char*>(launch.c) + static_cast<std::size_t>(z * p.stride_c + j * p.ldc) * size,
                    static_cast<std::size_t>(p.m) * size);
  }
  Problem problem_;
  dnnl::engine engine_;
  Built built_;
  bool adds_ = false;
};

std::string_view refuses(const GemmProblem& p) {
  if (!type_of(p.a_type) || !type_of(p.b_type) || !type_of(p.c_type)) return "types";
  if (p.beta != Scalar::zero && (p.ldc != p.ldd || p.stride_c != p.stride_d)) return "C and D lie differently";
  return {};
}
std::string_view refuses(const ConvProblem& p) {
  if (!type_of(p.x_type) || !type_of(p.w_type) || !type_of(p.y_type)) return "types";
  if (p.beta != Scalar::zero && p.direction != Direction::fwd) return "gradients with beta";
  return {};
}

}  // namespace

Prepared prepare_onednn(const Problem& problem, const Constraints& constraints) {
  if (constraints.deterministic) return declined("not deterministic");
  std::string_view why = "not a contraction";
  bool adds = false;
  visit_contraction(problem, [&](const auto& p) {
    adds = p.beta != Scalar::zero;
    if (p.epilogue != Epilogue::none)
      why = "an epilogue";
    else if (p.alpha != Scalar::one || p.beta == Scalar::other)
      why = "scalars";
    else
      why = refuses(p);
  });
  if (!why.empty()) return declined(std::string(why));
  try {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    const auto finished = [&](bool free) {
      Built built;
      visit_contraction(problem, [&](const auto& p) { built = build(p, engine, free); });
      complete(built, engine, adds);
      return built;
    };
    Built built = finished(false);
    // The fast kernels take few layouts as they are; reordering costs little against a plain loop.
    if (built.portable && std::holds_alternative<ConvProblem>(problem)) {
      Built reordered = finished(true);
      if (!reordered.portable && reordered.workspace <= constraints.workspace_limit) built = std::move(reordered);
    }
    if (built.workspace > constraints.workspace_limit)
      return declined(fmt::format("needs {} bytes of workspace", built.workspace));
    return {std::make_unique<OnednnPlan>(problem, engine, std::move(built)), Outcome::ok, {}};
  } catch (const dnnl::error& error) {
    return declined(error.what());
  }
}

std::string onednn_version() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
}

}  // namespace attune
