// SPDX-License-Identifier: Apache-2.0

#include "metrics/shadow_cache.h"

#include "test.h"
