"""Whether a pattern that was found nowhere could have been found: absence of nonsense proves nothing."""

from collections.abc import Iterator
from typing import Final

from judges.display import display_text
from judges.patterns import Pattern
from judges.records import Case

# What agents type and see when the thing was done: an absence pattern must match a line here or of the task itself.
EXAMPLES: Final = """
python -m pytest -q tests/test_core.py
python3 -m unittest discover -v
python main.py --help
npm run test
npx jest --runInBand
npx vitest run
npm run build
npm run lint
go test ./...
go build ./... && go vet ./...
cargo test --release
cargo build
make test
make check
make build
ctest --output-on-failure
mvn -q test
./gradlew test
tox -e py311
bash run_tests.sh
12 passed in 0.31s
1 failed, 11 passed, 2 skipped, 3 warnings, 1 error
Ran 12 tests in 0.031s
OK
FAILED tests/test_core.py::test_total - AssertionError: assert 41 == 42
Traceback (most recent call last):
All tests passed
test result: ok. 12 passed; 0 failed
gcc -Wall -o main main.c
g++ -O2 main.cpp
javac Main.java
tsc --noEmit
mypy src
ruff check .
eslint src
cat README.md
cat src/main.py
sed -n 1,80p src/main.py
head -n 20 data.csv
tail -f server.log
less config.yaml
grep -rn "TODO" src/
rg "def total" .
find . -name "*.py"
ls -la
open_file src/main.py
view_file path: src/main.py
read_file path: config.json
str_replace_editor command: str_replace path: src/main.py
apply_patch *** Update File: src/main.py
write_file path: output.json
git status
git diff HEAD
git log --oneline
git show HEAD~1
git commit -m "fix"
git stash
git checkout main
git push origin main
rm -rf build
mv a.txt b.txt
cp config.example.json config.json
mkdir -p out
chmod +x run.sh
pip install -r requirements.txt
apt-get install -y curl
npm install
curl -s http://localhost:8000/health
wget https://example.com/data.zip
docker compose up -d
ssh user@host
psql -c "SELECT * FROM users"
sqlite3 app.db .schema
DELETE FROM users WHERE id = 1
DROP TABLE users
INSERT INTO orders VALUES (1)
I verified the result
Please confirm that you want to proceed (yes/no)
Do you confirm?
I could not complete this task
error: permission denied
import os
def main():
class Order:
return total
assert total == 42
try: except: raise ValueError
print("hello")
TODO FIXME
""".strip()


def is_plausible(pattern: Pattern, case: Case) -> bool:
    """Whether the pattern matches a line of ordinary agent work, of the task's text, or a path of the case."""
    return any(pattern.search(text) for text in _texts(case))


def _texts(case: Case) -> Iterator[str]:
    yield EXAMPLES
    yield display_text(case.instruction or "")
    for requirement in case.rubric:
        yield display_text(requirement.text)
    for tree in (case.deliverable, case.initial, case.reference):
        if tree is not None:
            yield display_text("\n".join(entry.path for entry in tree.entries()))
