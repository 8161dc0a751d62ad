// SPDX-License-Identifier: Apache-2.0
//
// decisions_api.h -- the paths of the admin API that show decisions about single requests.
#pragma once

#include "admin/admin_call.h"

// The last ones: ?limit=, ?since=
admin_handler decisions_api_list;

// One, by the request id in its path.
admin_handler decisions_api_show;

// One, by the request id in its query: ?id=
admin_handler decisions_api_find;
