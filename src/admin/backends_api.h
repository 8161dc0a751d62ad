// SPDX-License-Identifier: Apache-2.0
//
// backends_api.h -- the paths of the admin API that show backends and change them.
//
// A change is in force when the response comes, and lives in memory: a restart forgets it.
#pragma once

struct admin_call;

// All of them, and one by itself.
void backends_api_list(const struct admin_call *call);
void backends_api_show(const struct admin_call *call);

// {"url": …, "weight": 1, "pool": …, "models": […]}
void backends_api_add(const struct admin_call *call);

// {"weight": n}
void backends_api_change(const struct admin_call *call);

// Requests in flight there go on.
void backends_api_remove(const struct admin_call *call);

// {"url": …}: what has no address yet has no id either.
void backends_api_remove_url(const struct admin_call *call);

// Nothing new goes there; and the opposite.
void backends_api_drain(const struct admin_call *call);
void backends_api_ready(const struct admin_call *call);
