#pragma once
#include "hastings/core/objectives.h"
