# Own repository at the test GitHub, reached as a GitHub Enterprise Server is. Sourced by release/clean-engines.

try_github-actions() {
    local page=adapters/github-actions/README.md word port api files made repository token
    coproc ENGINE { exec node tests/github/serve.mjs "$TARGET/github"; }
    read -r word port <&"${ENGINE[0]}"
    [[ $word == ready ]] || fail "the test GitHub did not start"
    api=http://127.0.0.1:$port
    files=$(python3 -c 'import json, sys; print(json.dumps({"files": {".github/workflows/test.yml": open(sys.argv[1]).read()}}))' \
        examples/github-actions/workflows/test.yml)
    made=$(curl -fsS "$api/_test/repos" -d "$files")
    read -r repository token < <(python3 -c 'import json, sys; made = json.loads(sys.argv[1]); print(made["repo"], made["token"])' "$made")
    begin "$page" ca-certificates
    take token "$page" 'export GITHUB_TOKEN=...' ... "$token"
    take init "$page" 'taskbridge init --engine github-actions --repository octo-org/app --workflow test.yml --api https://github.example.com/api/v3' \
        octo-org/app "$repository" https://github.example.com/api/v3 "$api"
    newcomer github-actions "$page" 'taskbridge call run_workflow'
    stop_engine
}
