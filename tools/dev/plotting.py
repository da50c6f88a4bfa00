"""matplotlib as the pictures of results/ use it: one look, and equal input gives equal bytes."""
import os
import sys

DEBIAN_PYTHON = "/usr/bin/python3"

try:
    import matplotlib
except ImportError:
    # Another Python in the path does not see the packages of the system.
    if os.path.exists(DEBIAN_PYTHON) and os.path.realpath(sys.executable) != os.path.realpath(
            DEBIAN_PYTHON):
        os.execv(DEBIAN_PYTHON, [DEBIAN_PYTHON, "-B", *sys.argv])
    sys.exit("error: matplotlib is missing; on Debian: apt-get install python3-matplotlib")

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

# Okabe and Ito's palette: told apart by colour-blind readers, and by markers in grey.
PALETTE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#555555"]
MARKERS = ["o", "s", "^", "D", "v", "P"]
DPI = 110


def style():
    matplotlib.rcdefaults()
    plt.rcParams.update({"font.size": 10, "axes.grid": True, "grid.color": "#DDDDDD",
                         "grid.linewidth": 0.6, "axes.axisbelow": True, "axes.edgecolor": "#666666",
                         "svg.hashsalt": "stepsim", "legend.framealpha": 0.92})
