# For tests of the http adapter. Toil takes ten seconds of a processor for it.
cwlVersion: v1.2
class: CommandLineTool
baseCommand: [sh, -c, 'printf "{\"said\": \"hello %s\"}" "$0" > cwl.output.json']
inputs:
  who: {type: string, inputBinding: {position: 1}}
outputs:
  said: string
