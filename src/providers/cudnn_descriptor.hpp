// Ownership of cuDNN's backend descriptors, and their attributes as C++ values.
#pragma once

#include <cudnn.h>

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace attune::cudnn {

/// One backend descriptor. The first failing call is remembered and those after it do nothing, so a descriptor is filled in and
/// finalized in one run of calls and asked once whether all went well.
class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(cudnnBackendDescriptorType_t type) noexcept { status_ = cudnnBackendCreateDescriptor(type, &raw_); }
  Descriptor(Descriptor&& other) noexcept
      : raw_(std::exchange(other.raw_, nullptr)), status_(std::exchange(other.status_, CUDNN_STATUS_NOT_INITIALIZED)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(raw_, other.raw_);
    std::swap(status_, other.status_);
    return *this;
  }
  ~Descriptor() {
    if (raw_) cudnnBackendDestroyDescriptor(raw_);
  }

  bool ok() const noexcept { return status_ == CUDNN_STATUS_SUCCESS; }
  cudnnStatus_t status() const noexcept { return status_; }
  cudnnBackendDescriptor_t get() const noexcept { return raw_; }

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values) noexcept {
    if (ok()) status_ = cudnnBackendSetAttribute(raw_, name, type, count, values);
  }
  void set(cudnnBackendAttributeName_t name, std::int64_t value) noexcept { set(name, CUDNN_TYPE_INT64, 1, &value); }
  template <std::same_as<bool> Bool>
  void set(cudnnBackendAttributeName_t name, Bool value) noexcept {
    set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t value) noexcept { set(name, CUDNN_TYPE_DATA_TYPE, 1, &value); }
  void set(cudnnBackendAttributeName_t name, cudnnHandle_t value) noexcept { set(name, CUDNN_TYPE_HANDLE, 1, &value); }
  void set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) noexcept {
    set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& value) noexcept {
    if (ok() && !value.ok()) status_ = value.status_;
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.raw_);
  }
  void set(cudnnBackendAttributeName_t name, std::span<const Descriptor> values) {
    std::vector<cudnnBackendDescriptor_t> raw;
    for (const Descriptor& value : values) {
      if (ok() && !value.ok()) status_ = value.status_;
      raw.push_back(value.raw_);
    }
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(raw.size()), raw.data());
  }
  void finalize() noexcept {
    if (ok()) status_ = cudnnBackendFinalize(raw_);
  }

  /// One value; `otherwise` when it cannot be read.
  std::int64_t read(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t otherwise) const noexcept;
  /// As many values as there are; empty when they cannot be read.
  template <class T>
  std::vector<T> read_list(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const {
    std::int64_t count = 0;
    if (!ok() || cudnnBackendGetAttribute(raw_, name, type, 0, &count, nullptr) != CUDNN_STATUS_SUCCESS || count <= 0)
      return {};
    std::vector<T> values(static_cast<std::size_t>(count));
    if (cudnnBackendGetAttribute(raw_, name, type, count, &count, values.data()) != CUDNN_STATUS_SUCCESS) return {};
    if (count >= 0 && static_cast<std::size_t>(count) < values.size()) values.resize(static_cast<std::size_t>(count));
    return values;
  }
  /// At most `limit` descriptors (0: as many as cuDNN says there are), which cuDNN fills in.
  std::vector<Descriptor> read_descriptors(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                           std::int64_t limit = 0) const;

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
  cudnnStatus_t status_ = CUDNN_STATUS_NOT_INITIALIZED;
};

/// The status by name, and what cuDNN last said about it on this thread: to be asked before the next call.
std::string describe(cudnnStatus_t status);

}  // namespace attune::cudnn
