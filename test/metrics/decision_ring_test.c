// SPDX-License-Identifier: Apache-2.0

#include "metrics/decision_ring.h"

#include "test.h"
