// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/split/char_class.h"

#include "char_class_table.inc" // the build writes it: tools/char_classes.py
