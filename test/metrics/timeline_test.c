// SPDX-License-Identifier: Apache-2.0

#include "metrics/timeline.h"

#include "test.h"
