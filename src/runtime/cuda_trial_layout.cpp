#include "runtime/cuda_trial_layout.hpp"

#include <algorithm>

namespace attune {
namespace {

std::size_t round_up(std::size_t bytes) noexcept { return (bytes + 255) / 256 * 256; }

/// Places an operand behind `end` and moves `end` behind the operand.
std::size_t place(std::size_t& end, const Operand& operand) noexcept {
  std::size_t at = round_up(end);
  if (operand.align < 16) at += std::max(static_cast<std::size_t>(operand.align), size_of(operand.span.type));
  end = at + operand.span.bytes();
  return at;
}

}  // namespace

TrialLayout trial_layout(const Problem& problem, std::int64_t l2_bytes, std::size_t workspace, std::size_t reference_bytes,
                         int most_sets) noexcept {
  const Operands o = operands(problem);
  // A convolution accumulates into its output, which is then its c.
  const bool c_apart = std::holds_alternative<GemmProblem>(problem) && o.c.span.elements != 0;

  TrialLayout layout;
  std::size_t end = 0;
  layout.a = place(end, o.a);
  layout.b = place(end, o.b);
  if (c_apart) layout.c = place(end, o.c);
  layout.bias = place(end, o.bias);
  layout.scales = round_up(end);
  end = layout.scales + 2 * 16;
  std::size_t more_bytes = 0;
  for (int i = 0; i < o.more_count; ++i) {
    if (o.more[i].written) end += red_zone_bytes;
    layout.more[i] = place(end, o.more[i]);
    if (o.more[i].written) end += red_zone_bytes;
    more_bytes += o.more[i].span.bytes();
  }
  end += red_zone_bytes;
  layout.d = place(end, o.d);
  if (!c_apart) layout.c = layout.d;
  layout.set_bytes = round_up(end + red_zone_bytes);

  const double touched = static_cast<double>(o.a.span.bytes() + o.b.span.bytes() + o.d.span.bytes() + more_bytes +
                                             (c_apart ? o.c.span.bytes() : 0));
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
