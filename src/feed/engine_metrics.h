// SPDX-License-Identifier: Apache-2.0
//
// engine_metrics.h -- what an engine's metrics page says of its load.
//
// Reads Prometheus text (vLLM, SGLang, TensorRT-LLM, Triton, llama.cpp; old and new names) and the JSON
// list that TensorRT-LLM serves at the same path.  Several series of one name, as data-parallel
// ranks have, are added up, and usages averaged, or those of one rank are read alone.  A name that is missing is not zero: the field stays
// negative.  Of a page with thousands of lines only the few that matter cost more than finding the
// end of the line.
//
// Any bytes may come: what is no metric is passed over.
#pragma once

#include "base/slice.h"
#include "fleet/load.h"

enum { engine_metrics_all_ranks = UINT32_MAX };

// Fields that the page does not have are negative.  Of a server with data-parallel ranks, series that name
// another rank than `rank` are left out; those that name none are everybody's.
void engine_metrics_read(struct slice page, uint32_t rank, struct load_report *out);
