#include "sim/base/units.h"
