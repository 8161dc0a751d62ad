// SPDX-License-Identifier: Apache-2.0
//
// decisions_api.h -- the paths of the admin API that show what was decided for single requests.
#pragma once

struct admin_call;

// The last ones: ?limit=, ?since=
void decisions_api_list(const struct admin_call *call);

// One, by the request id in its path.
void decisions_api_show(const struct admin_call *call);

// One, by the request id in its query: ?id=
void decisions_api_find(const struct admin_call *call);
