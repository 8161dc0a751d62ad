// SPDX-License-Identifier: Apache-2.0
//
// engine_metrics.h -- what an engine's metrics page says of its load.
//
// Reads Prometheus text (vLLM, SGLang, TensorRT-LLM, Triton, llama.cpp; old and new names) and the JSON
// list that TensorRT-LLM serves at the same path.  Several series of one name, as data-parallel
// ranks have, are added up, and usages averaged.  A name that is missing is not zero: the field stays
// negative.  Of a page with thousands of lines only the few that matter cost more than finding the
// end of the line.
//
// Any bytes may come: what is no metric is passed over.
#pragma once

#include "base/slice.h"
#include "fleet/load.h"

// Fields that the page does not have are negative.
void engine_metrics_read(struct slice page, struct load_report *out);
