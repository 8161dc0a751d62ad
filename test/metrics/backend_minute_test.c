// SPDX-License-Identifier: Apache-2.0

#include "metrics/backend_minute.h"

#include "test.h"
