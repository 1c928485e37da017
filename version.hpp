// The version of the library: its one place, which the build reads too.
#pragma once

#define TAPEGRAD_VERSION "0.1.0"
