// SPDX-License-Identifier: Apache-2.0
#include "json/json_vector_internal.h"
#include "test.h"
TEST(x){ CHECK(true); }
