#include "runtime/cuda_trial_layout.hpp"

#include <algorithm>

namespace attune {
namespace {

struct Alignments {
  int a, b, c, d, bias;
};

Alignments alignments(const GemmProblem& p) noexcept {
  return {p.align_a, p.align_b, p.align_c, p.align_d, p.align_bias};
}

Alignments alignments(const ConvProblem& p) noexcept {
  switch (p.direction) {
    case Direction::fwd: return {p.align_x, p.align_w, p.align_y, p.align_y, p.align_bias};
    case Direction::dgrad: return {p.align_y, p.align_w, p.align_x, p.align_x, 16};
    case Direction::wgrad: return {p.align_x, p.align_y, p.align_w, p.align_w, 16};
  }
  return {16, 16, 16, 16, 16};
}

std::size_t round_up(std::size_t bytes) noexcept { return (bytes + 255) / 256 * 256; }

/// Places an operand behind `end` and moves `end` behind the operand.
std::size_t place(std::size_t& end, const Span& span, int alignment) noexcept {
  std::size_t at = round_up(end);
  if (alignment < 16) at += std::max(static_cast<std::size_t>(alignment), size_of(span.type));
  end = at + span.bytes();
  return at;
}

}  // namespace

TrialLayout trial_layout(const Problem& problem, std::int64_t l2_bytes, std::size_t workspace, std::size_t reference_bytes,
                         int most_sets) noexcept {
  const Spans s = spans(problem);
  const Alignments align = std::visit([](const auto& p) { return alignments(p); }, problem);
  // A convolution accumulates into its output, which is then its c.
  const bool c_apart = std::holds_alternative<GemmProblem>(problem) && s.c.elements != 0;

  TrialLayout layout;
  std::size_t end = 0;
  layout.a = place(end, s.a, align.a);
  layout.b = place(end, s.b, align.b);
  if (c_apart) layout.c = place(end, s.c, align.c);
  layout.bias = place(end, s.bias, align.bias);
  layout.scales = round_up(end);
  end = layout.scales + 2 * 16;
  end += red_zone_bytes;
  layout.d = place(end, s.d, align.d);
  if (!c_apart) layout.c = layout.d;
  layout.set_bytes = round_up(end + red_zone_bytes);

  const double touched = static_cast<double>(s.a.bytes() + s.b.bytes() + s.d.bytes() + (c_apart ? s.c.bytes() : 0));
  const double wanted = 3.0 * static_cast<double>(l2_bytes) / std::max(touched, 1.0) + 1;
  layout.sets = static_cast<int>(std::clamp(wanted, 1.0, static_cast<double>(std::clamp(most_sets, 1, most_operand_sets))));

  end = static_cast<std::size_t>(layout.sets) * layout.set_bytes + red_zone_bytes;
  layout.workspace = end;
  layout.workspace_bytes = round_up(workspace);
  layout.references = layout.workspace + layout.workspace_bytes + red_zone_bytes;
  layout.total = round_up(layout.references + reference_bytes);
  return layout;
}

}  // namespace attune
