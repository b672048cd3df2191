// attune::Context: forwards to its Impl.
#include <attune/context.hpp>

#include <fmt/format.h>

#include <cstdlib>

#include "context_impl.hpp"
#include "core/names.hpp"
#include "tune/plan_file.hpp"

namespace attune {
inline namespace v0 {

Context::Context(Device device)
    : impl_(std::make_unique<Impl>(make_backend(device), [](const char* name) -> const char* { return std::getenv(name); })) {}
Context::Context(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Context::~Context() = default;
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;

void Context::set_benchmark(bool on) {
  impl_->change([&](Settings& s) { s.benchmark.set(on, Origin::api, "api"); });
}

void Context::set_deterministic(bool on) {
  impl_->change([&](Settings& s) { s.deterministic.set(on, Origin::api, "api"); });
}

void Context::set_effort(Effort effort) {
  if (!is_known(effort)) throw Error(Status::invalid_argument, fmt::format("effort = {}: unknown", static_cast<int>(effort)));
  impl_->change([&](Settings& s) { s.effort.set(effort, Origin::api, "api"); });
}

void Context::set_budget_ms(double milliseconds) {
  if (!(milliseconds >= 0)) throw Error(Status::invalid_argument, fmt::format("budget_ms = {}: must not be negative", milliseconds));
  impl_->change([&](Settings& s) { s.budget_ms.set(milliseconds, Origin::api, "api"); });
}

void Context::set_workspace_limit(std::size_t bytes) {
  impl_->change([&](Settings& s) { s.workspace_limit.set(round_workspace_limit(bytes), Origin::api, "api"); });
}

void Context::set_math_modes(MathMode modes) {
  constexpr auto all = MathMode::tf32 | MathMode::reduced_reduction | MathMode::transforms | MathMode::fp8_fast;
  if ((modes & all) != modes)
    throw Error(Status::invalid_argument, fmt::format("math modes = {:#x}: unknown bits", static_cast<std::uint32_t>(modes)));
  impl_->change([&](Settings& s) { s.math.set(modes, Origin::api, "api"); });
}

void Context::set_plan_file(const std::string& path) {
  const auto name = [&](Settings& s) {
    s.cache_read.set(path, Origin::api, "api");
    s.cache_write.set(path, Origin::api, "api");
  };
  impl_->change(name, path);
}

void Context::set_record_file(const std::string& path) {
  impl_->change([&](Settings& s) { s.record.set(path, Origin::api, "api"); });
}

void Context::set_workspace(void* pointer, std::size_t bytes) { impl_->set_workspace(pointer, bytes); }

void Context::set_allocator(const Allocator& allocator) {
  if ((allocator.allocate == nullptr) != (allocator.deallocate == nullptr))
    throw Error(Status::invalid_argument, fmt::format("allocator.{}: is null while the other function is given",
                                                      allocator.allocate == nullptr ? "allocate" : "deallocate"));
  if (!impl_->runtime().set_allocator(allocator))
    throw Error(Status::invalid_argument, "allocator: set after the first workspace was taken");
}

void Context::set_log(LogLevel level, LogCallback callback, void* user) {
  if (!is_known(level)) throw Error(Status::invalid_argument, fmt::format("log level = {}: unknown", static_cast<int>(level)));
  impl_->set_log(level, callback, user);
}

PlanInfo Context::prepare(const Problem& problem) { return impl_->prepare(problem); }
PlanInfo Context::tune(const Problem& problem) { return impl_->tune(problem, nullptr); }
std::size_t Context::workspace_size(const Problem& problem) { return impl_->plan_for(problem).workspace; }
PlanInfo Context::plan_for(const Problem& problem) { return impl_->plan_for(problem); }
Stats Context::stats() const { return impl_->stats(); }
std::size_t Context::load(const std::string& path) { return impl_->load(path); }
void Context::save(const std::string& path) const { impl_->save(path); }

void Context::merge(const std::string& into, const std::string& from) {
  const std::string error = merge_plan_files(into, from);
  if (!error.empty()) throw Error(Status::file_error, error);
}

}  // namespace v0
}  // namespace attune
