#!/usr/bin/env bash
# What docs/start.md tells a newcomer, in a fresh environment outside the clone; says how long each step takes.
#   tools/newcomer.sh [wheel|tag]   where the packages come from: build/wheels, or a tag of a copy of this repository
set -euo pipefail
clone=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
way=${1:-wheel}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

step() {
  local name=$1 started=$SECONDS
  shift
  printf '\n--- %s: %s\n' "$name" "$*"
  "$@"
  printf -- '--- %s: %d s\n' "$name" $((SECONDS - started))
}

# fails CODE WORDS COMMAND...: the command ends with this code and says these words.
fails() {
  local code=$1 words=$2 status=0 said
  shift 2
  said=$("$@" 2>&1) || status=$?
  printf '%s\n' "$said"
  if [[ $status != "$code" || $said != *"$words"* ]]; then
    printf 'It ended with %d instead of %d, or without: %s\n' "$status" "$code" "$words"
    return 1
  fi
}

# A block of the page that is named by its file.
page_block() {
  awk -v head="\`\`\`yaml own $1" '$0 == head { inside = 1; next } /^```$/ { inside = 0 } inside' "$clone/docs/start.md"
}

release() {
  "${PYTHON:-python3}" -c 'import sys, tomllib; print(tomllib.load(open(sys.argv[1], "rb"))["project"]["version"])' "$clone/pyproject.toml"
}

"${PYTHON:-python3}" -m venv env
# shellcheck disable=SC1091
. env/bin/activate
pip=(python -m pip --quiet --disable-pip-version-check install)
if [[ $way == tag ]]; then
  git clone --quiet --bare "$clone" repository.git
  git -C repository.git tag the-tag
  url="git+file://localhost$scratch/repository.git@the-tag"
  step "install from a tag" "${pip[@]}" "trainwright-trainer @ $url#subdirectory=trainer" "trainwright @ $url"
  step "new" trainwright new training --cluster laptop
  step "check" trainwright check --project training
  exit
fi

step "install" "${pip[@]}" --find-links "$clone/build/wheels" "trainwright==$(release)"
step "new" trainwright new training --cluster eks-p5
cd training
page_block charts/runs/my-model.yaml > charts/runs/my-model.yaml
step "plan" trainwright plan my-model
step "synth" trainwright synth
step "check" trainwright check
step "validate" trainwright validate dist
sed -i.whole 's/nodes: 2/node: 2/' charts/runs/my-model.yaml
step "a misspelt key" fails 1 'did you mean `nodes`?' trainwright synth
mv charts/runs/my-model.yaml.whole charts/runs/my-model.yaml
step "mended" fails 0 "nothing changed" trainwright synth
sed -i.done '/^state: done$/d' charts/runs/first-run.yaml && rm charts/runs/first-run.yaml.done
step "the first run" fails 0 "first-run: new run" trainwright synth
step "rehearse without torch" fails 3 "trainwright-trainer[torch]" trainwright rehearse first-run
step "install torch" "${pip[@]}" "torch==$(sed -n 's/^torch==//p' "$clone/requirements/torch.txt")" ${TORCH_INDEX:+--index-url "$TORCH_INDEX"}
step "install the trainer" "${pip[@]}" "trainwright-trainer[torch]"
step "rehearse" trainwright rehearse first-run
printf '\nA newcomer needed %d s.\n' "$SECONDS"
