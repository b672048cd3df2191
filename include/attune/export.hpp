// Symbol visibility: everything is hidden but what carries ATTUNE_EXPORT.
#pragma once

#if defined(__GNUC__)
#define ATTUNE_EXPORT __attribute__((visibility("default")))
#else
#define ATTUNE_EXPORT
#endif
