#include "tune/measure.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace attune {

bool is_time(double us) noexcept { return std::isfinite(us) && us > 0; }

double median(std::vector<double> values) {
  std::erase_if(values, [](double v) { return !is_time(v); });
  if (values.empty()) return 0;
  const std::size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle), values.end());
  const double upper = values[middle];
  if (values.size() % 2 == 1) return upper;
  return (*std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle)) + upper) / 2;
}

double spread(const std::vector<double>& values) {
  const double center = median(values);
  std::vector<double> deviations;
  for (double v : values)
    if (is_time(v)) deviations.push_back(std::abs(v - center));
  if (deviations.size() < 2) return 0;
  // Deviations of zero are legitimate here, so not median(), which takes zero for a failed clock.
  const std::size_t middle = deviations.size() / 2;
  std::nth_element(deviations.begin(), deviations.begin() + static_cast<std::ptrdiff_t>(middle), deviations.end());
  return 2 * 1.4826 * deviations[middle] / center / std::sqrt(static_cast<double>(deviations.size()));
}

void prune(const std::vector<std::vector<double>>& samples, std::size_t default_index, double ratio, std::vector<bool>& alive) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<double> middle(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    middle[i] = median(samples[i]);
    if (alive[i] && is_time(middle[i])) best = std::min(best, middle[i]);
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const bool failed = samples[i].empty() || !is_time(middle[i]);
    if (alive[i] && (failed || (i != default_index && middle[i] > best * ratio))) alive[i] = false;
  }
}

void time_in_turn(const std::vector<Timer*>& timers, std::size_t default_index, const RoundRule& rule,
                  const std::function<bool()>& expired, std::vector<std::vector<double>>& samples) {
  samples.assign(timers.size(), {});
  std::vector<bool> alive(timers.size(), true);
  const int ratios = static_cast<int>(std::size(rule.drop_ratio));
  for (int round = 0; round < rule.max_rounds; ++round) {
    for (std::size_t turn = 0; turn < timers.size(); ++turn) {
      const std::size_t i = round % 2 == 0 ? turn : timers.size() - 1 - turn;
      if (!alive[i]) continue;
      if (round > 0 && expired()) return;
      const double us = timers[i]->sample();
      if (is_time(us))
        samples[i].push_back(us);
      else
        alive[i] = false;
    }
    prune(samples, default_index, rule.drop_ratio[std::min(round, ratios - 1)], alive);
    if (round + 1 >= rule.min_rounds && std::count(alive.begin(), alive.end(), true) < 2) return;
  }
}

}  // namespace attune
