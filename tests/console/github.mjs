// A task over GitHub Actions: the test GitHub runs the workflow, and asks for a review before it does.

import { spawn } from 'node:child_process';
import path from 'node:path';

import { check } from './check.mjs';
import { LIMIT, until, World } from './world.mjs';

const INSTALLED = path.resolve(process.env.CONSOLE_PACKAGES ?? 'target/console', '../github');
const SECRET = 'only GitHub and the server know';
const WORKFLOW = `name: ship
on:
  workflow_dispatch:
    inputs:
      version: { type: string, required: true }
      taskbridge_job: { type: string }
run-name: ship \${{ inputs.version }} \${{ inputs.taskbridge_job }}
jobs:
  ship:
    runs-on: ubuntu-latest
    environment: production
    steps:
      - run: echo "ships $VERSION"
        env: { VERSION: "\${{ inputs.version }}" }
      - run: "echo 'error: no route to host <script>window.pwned=1</script>'; exit 3"
`;

async function startGithub() {
    const child = spawn('node', ['tests/github/serve.mjs', INSTALLED], { stdio: ['pipe', 'pipe', 'inherit'] });
    const port = await new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error('the test GitHub does not start')), LIMIT);
        child.stdout.on('data', (data) => {
            const match = /ready (\d+)/.exec(data);
            if (match) { clearTimeout(timer); resolve(Number(match[1])); }
        });
        child.on('exit', (code) => reject(new Error(`the test GitHub ends with ${code}`)));
    });
    const url = `http://127.0.0.1:${port}`;
    const control = async (name, body) => {
        const response = await fetch(`${url}/_test/${name}`, { method: 'POST', body: JSON.stringify(body) });
        return response.json();
    };
    // It ends with its input.
    const stop = () => new Promise((resolve) => { child.on('exit', resolve); child.stdin.end(); });
    return { url, control, stop };
}

async function reviewsAndReadsLog(tools) {
    const github = await startGithub();
    let world;
    try {
        const files = { '.github/workflows/ship.yml': WORKFLOW };
        const { repo, token } = await github.control('repos', { files, environments: { production: {} }, reviewer: true });
        world = await World.start({
            extra: `[backends.github]\nkind = "github-actions"\nrepository = "${repo}"\ntoken = "${token}"\napi = "${github.url}"\nwebhook_secret = "${SECRET}"\n`
                + '[tools.ship]\ndescription = "Ships a version."\nbackend = "github"\ntarget = { workflow = "ship.yml" }\n'
                + 'parameters.version = { type = "string" }\n',
        });
        const page = await tools.signedIn(world);
        await page.goto(`${world.origin}/console/tools/ship`);
        await page.getByLabel('version').fill('v7');
        await page.getByRole('button', { name: 'Start a task' }).click();
        await page.waitForURL('**/console/tasks/*');
        const task = page.url().split('/').at(-1);
        // The page turns into the question, which is answered in place.
        await page.getByRole('button', { name: 'Answer' }).waitFor();
        await tools.sound(page, 'question of a review');
        await page.getByRole('button', { name: 'Answer' }).click();
        await page.locator('h1', { hasText: 'failed' }).waitFor();
        const [run] = await github.control('listed', { repo });
        check(run.conclusion === 'failure' && run.reviewed_by.length === 1, JSON.stringify(run));
        await page.goto(`${world.origin}/console/tasks/${task}?log=1`);
        const failure = await page.textContent('#first-failure');
        check(failure.includes('no route to host <script>'), failure);
        check(await page.evaluate(() => window.pwned) === undefined, 'a script of the log runs');
        await tools.sound(page, 'log of a run');

        // An operator sees whether hooks come.
        const deliveries = async () => (await page.goto(`${world.origin}/console/backends`)) && page.textContent('main');
        check((await deliveries()).includes('/hooks/github: none since the start'), 'no hook came yet');
        await github.control('webhook', { repo, url: `${world.origin}/hooks/github`, secret: SECRET, ways: ['sent'] });
        await world.client().start('ship', { version: 'v8' });
        await until('a hook came', async () => (await deliveries()).includes('/hooks/github: the last came'));
    } finally {
        await world?.stop();
        await github.stop();
    }
}

export default [['a workflow run is reviewed, and its log read', reviewsAndReadsLog]];
