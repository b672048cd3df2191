#include "providers/cudnn_descriptor.hpp"

namespace attune::cudnn {

std::int64_t Descriptor::read(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                              std::int64_t otherwise) const noexcept {
  union {
    std::int64_t wide;
    std::int32_t narrow;
  } value{0};
  std::int64_t count = 0;
  if (!ok() || cudnnBackendGetAttribute(raw_, name, type, 1, &count, &value) != CUDNN_STATUS_SUCCESS || count != 1)
    return otherwise;
  // Everything but a 64-bit integer is an enumeration or a 32-bit integer.
  return type == CUDNN_TYPE_INT64 ? value.wide : value.narrow;
}

std::vector<Descriptor> Descriptor::read_descriptors(cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                                                     std::int64_t limit) const {
  std::int64_t count = limit;
  if (!ok()) return {};
  if (limit == 0 &&
      cudnnBackendGetAttribute(raw_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr) != CUDNN_STATUS_SUCCESS)
    return {};
  if (count <= 0) return {};
  std::vector<Descriptor> owners;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; ++i) {
    owners.emplace_back(type);
    if (!owners.back().ok()) return {};
    raw.push_back(owners.back().get());
  }
  std::int64_t filled = 0;
  if (cudnnBackendGetAttribute(raw_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &filled, raw.data()) != CUDNN_STATUS_SUCCESS)
    return {};
  owners.resize(static_cast<std::size_t>(filled < count ? filled : count));
  return owners;
}

std::string describe(cudnnStatus_t status) {
  std::string text = cudnnGetErrorString(status);
  char detail[256] = "";
  cudnnGetLastErrorString(detail, sizeof detail);
  if (detail[0] != '\0') (text += ": ") += detail;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace attune::cudnn
