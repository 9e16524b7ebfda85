import subprocess
import sys

BANNED = ["pyspark", "pandas", "pyarrow", "hypothesis", "pytest", "recency.testing"]


def test_importing_recency_imports_no_spark():
    """Nor anything else that is not a runtime dependency: an import hook refuses all others."""
    program = f"""
import sys

class Banned:
    def find_spec(self, name, path=None, target=None):
        assert not name.startswith({tuple(BANNED)!r}), name

sys.meta_path.insert(0, Banned())
import recency
recency.loads(recency.ExponentialHistogram().to_bytes())
assert not [name for name in sys.modules if name.split(".")[0] in {BANNED!r}]
"""
    subprocess.run([sys.executable, "-c", program], check=True)
