// SPDX-License-Identifier: Apache-2.0

#include "metrics/shadow.h"

#include "test.h"
