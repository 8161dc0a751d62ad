// SPDX-License-Identifier: Apache-2.0

#include "nfc_data.inc" // the build writes it: tools/nfc_tables.py
